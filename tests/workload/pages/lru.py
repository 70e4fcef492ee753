"""A cache with a limit in bytes and an expiry time, for thumbnails.

The cache keeps the entries that were used most recently. An entry is dropped
when it has expired, or when room is needed and nothing older is left. Values
are bytes; keys are strings of at most KEY_LEN_MAX characters.

Not thread-safe: every worker process has a cache of its own.
"""

import time
from collections import OrderedDict

KEY_LEN_MAX = 200


class CacheError(Exception):
    """Base class of all errors of this module."""


class KeyTooLong(CacheError):
    def __init__(self, key):
        super().__init__(f"key has {len(key)} characters, {KEY_LEN_MAX} allowed")


class ValueTooLarge(CacheError):
    def __init__(self, size, limit):
        super().__init__(f"value has {size} bytes, the cache holds {limit}")
        self.size = size
        self.limit = limit


class Entry:
    __slots__ = ("value", "expires_at")

    def __init__(self, value, expires_at):
        self.value = value
        self.expires_at = expires_at


class ByteCache:
    def __init__(self, limit_bytes, ttl_seconds=3600.0, clock=time.monotonic):
        if limit_bytes <= 0:
            raise ValueError("limit_bytes must be positive")
        self._entries = OrderedDict()  # oldest use first
        self._limit = limit_bytes
        self._ttl = ttl_seconds
        self._clock = clock
        self._size = 0
        self.hits = 0
        self.misses = 0
        self.evictions = 0

    def __len__(self):
        return len(self._entries)

    @property
    def size_bytes(self):
        """Bytes of all values, expired ones included until they are dropped."""
        return self._size

    def get(self, key):
        """Return the value and mark it as used, or None."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        if entry.expires_at <= self._clock():
            self._drop(key)
            self.misses += 1
            return None
        self._entries.move_to_end(key)
        self.hits += 1
        return entry.value

    def delete(self, key):
        """Remove a key. Return whether it was there."""
        if key not in self._entries:
            return False
        self._drop(key)
        return True

    def purge(self):
        """Drop all expired entries and return how many there were."""
        now = self._clock()
        expired = [k for k, e in self._entries.items() if e.expires_at <= now]
        for key in expired:
            self._drop(key)
        return len(expired)

    def hit_rate(self):
        """Return hits per lookup, 0.0 before the first lookup."""
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0

    def stats(self):
        return {
            "entries": len(self),
            "bytes": self._size,
            "hit_rate": round(self.hit_rate(), 3),
            "evictions": self.evictions,
        }

    def _drop(self, key):
        entry = self._entries.pop(key)
        self._size -= len(entry.value)

    def put(self, key, value):
        """Store a value under a key, replacing an older value.

        Expired entries are dropped first; if there is still not enough room,
        the entries used longest ago follow, each counted in self.evictions.
        Raises KeyTooLong, or ValueTooLarge if the value alone exceeds the
        limit; in both cases the cache is unchanged.
        """
