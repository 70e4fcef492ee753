// One engine per origin: the tab that holds a Web Lock has the worker and serves the others over a
// BroadcastChannel. When it is closed, the next tab in the line for the lock takes over.

import { Desk, type Visitor, type WorkerPlace } from "./desk.js";
import { FanlightError } from "./errors.js";
import type { About, ToWorker } from "./protocol.js";

const OWNER_LOCK = "fanlight-owner";
const TAB_LOCK = "fanlight-tab-";
/** The number is that of the messages below: tabs with different ones do not hear each other. */
const CHANNEL = "fanlight-1";

/** An owner that lives answers within a moment; after so long another tab takes over. */
const OWNER_ANSWERS_MS = 10_000;

type Letter =
  /** A tab asks who owns the engine. */
  | { kind: "who" }
  | { kind: "owner"; owner: string }
  | { kind: "to-owner"; owner: string; tab: string; message: ToWorker }
  | { kind: "to-tab"; tab: string; message: About }
  /** The owner's worker is gone. */
  | { kind: "ended"; owner: string; code: FanlightError["code"]; message: string };

/** A tab's end of the line to the worker, wherever it is. */
export interface Line {
  send(message: ToWorker): void;
  /** Gives the worker up; the last who uses it ends it. */
  close(): void;
}

/** A line to a worker of this page's own. */
export function ownLine(place: WorkerPlace, visitor: Visitor): Line {
  const desk = new Desk(place);
  return {
    send: (message) => desk.receive(visitor, message),
    close: () => desk.close(disposed()),
  };
}

function disposed(): FanlightError {
  return new FanlightError("disposed", "the engine was disposed of: create another");
}

/** A line to the one worker of this origin. */
export class SharedLine implements Line {
  private readonly tab = crypto.randomUUID();
  private readonly channel = new BroadcastChannel(CHANNEL);
  private readonly closing = new AbortController();
  /** Set in the tab that owns the worker. */
  private desk: Desk | null = null;
  private owner: string | null = null;
  /**
   * Whether this tab holds its own lock. Before, an owner that hears of the tab would be granted that lock,
   * and would take the tab for gone.
   */
  private isHeld = false;
  /** Messages sent while no owner is known, or while this tab does not hold its lock. */
  private waiting: ToWorker[] = [];
  /** Called when an owner makes itself known. */
  private followed: () => void = () => {};
  private readonly others = new Map<string, Visitor>();

  constructor(
    private readonly place: WorkerPlace,
    private readonly visitor: Visitor,
  ) {
    this.channel.onmessage = ({ data }: MessageEvent<Letter>) => this.read(data);
    // Where a page may have no locks nothing can be shared: it has a worker of its own.
    this.begin().catch(() => this.become());
  }

  send(message: ToWorker): void {
    if (this.desk) this.desk.receive(this.visitor, message);
    else if (this.owner === null || !this.isHeld) {
      this.waiting.push(message);
      if (this.owner === null) this.post({ kind: "who" });
    }
    else this.post({ kind: "to-owner", owner: this.owner, tab: this.tab, message });
  }

  close(): void {
    this.closing.abort();
    this.desk?.close(disposed());
    this.channel.close();
  }

  private post(letter: Letter): void {
    if (!this.closing.signal.aborted) this.channel.postMessage(letter);
  }

  private untilClosed(): Promise<void> {
    const { signal } = this.closing;
    return new Promise((closed) => {
      if (signal.aborted) closed();
      signal.addEventListener("abort", () => closed(), { once: true });
    });
  }

  private async begin(): Promise<void> {
    const { signal } = this.closing;
    // Held while this tab lives, so that the owner hears when it is gone.
    await new Promise<void>((held, refused) => {
      const hold = () => {
        held();
        return this.untilClosed();
      };
      navigator.locks.request(TAB_LOCK + this.tab, hold).catch(refused);
    });
    this.isHeld = true;
    for (const message of this.waiting.splice(0)) this.send(message);
    let how: LockOptions = { ifAvailable: true };
    while (!signal.aborted) {
      const wasOwner = await this.own(how);
      how = { signal };
      if (wasOwner || signal.aborted) continue;
      this.post({ kind: "who" });
      // Browsers stop tabs that nobody looks at: such a one keeps its locks and does not answer.
      if (!(await this.isAnswered())) how = { steal: true };
    }
  }

  /**
   * Is the owner from when the lock is granted until it is stolen or this tab closes; false if it never was.
   */
  private async own(how: LockOptions): Promise<boolean> {
    let wasOwner = false;
    try {
      await navigator.locks.request(OWNER_LOCK, how, (lock) => {
        if (!lock) return undefined;
        wasOwner = true;
        this.become();
        return this.untilClosed();
      });
    } catch (error) {
      // Closed while it waited in the line, or stolen while it was the owner.
      if (!this.closing.signal.aborted && !wasOwner) throw error;
      this.lose();
    }
    return wasOwner;
  }

  /** Whether an owner is known, or makes itself known in time. */
  private isAnswered(): Promise<boolean> {
    return new Promise((answered) => {
      const timer = setTimeout(() => answered(this.owner !== null), OWNER_ANSWERS_MS);
      this.followed = () => {
        clearTimeout(timer);
        answered(true);
      };
      if (this.owner !== null) this.followed();
    });
  }

  /** Another tab has taken over, as this one did not answer. */
  private lose(): void {
    const { desk } = this;
    this.desk = null;
    this.owner = null;
    desk?.close(ownerGone());
    this.post({ kind: "who" });
  }

  /** Makes this tab the owner. */
  private become(): void {
    const before = this.owner;
    this.desk = new Desk(this.place);
    this.owner = this.tab;
    this.post({ kind: "owner", owner: this.tab });
    if (before !== null) this.visitor.ended(ownerGone());
    for (const message of this.waiting.splice(0)) this.send(message);
  }

  private read(letter: Letter): void {
    switch (letter.kind) {
      case "who":
        if (this.desk) this.post({ kind: "owner", owner: this.tab });
        break;
      case "owner":
        this.follow(letter.owner);
        break;
      case "to-owner":
        if (this.desk && letter.owner === this.tab) this.desk.receive(this.other(letter.tab), letter.message);
        break;
      case "to-tab":
        if (letter.tab === this.tab) this.visitor.about(letter.message);
        break;
      case "ended":
        if (letter.owner === this.owner) this.visitor.ended(new FanlightError(letter.code, letter.message));
    }
  }

  private follow(owner: string): void {
    if (this.desk || owner === this.owner) return;
    const before = this.owner;
    this.owner = owner;
    this.followed();
    if (before !== null) this.visitor.ended(ownerGone());
    for (const message of this.waiting.splice(0)) this.send(message);
  }

  /** Another tab as a visitor of the desk here. */
  private other(tab: string): Visitor {
    const known = this.others.get(tab);
    if (known) return known;
    const visitor: Visitor = {
      about: (message) => this.post({ kind: "to-tab", tab, message }),
      ended: ({ code, message }) => {
        this.post({ kind: "ended", owner: this.tab, code, message });
      },
    };
    this.others.set(tab, visitor);
    // Granted when that tab is gone, however it went.
    void navigator.locks
      .request(TAB_LOCK + tab, { signal: this.closing.signal }, () => {
        this.others.delete(tab);
        this.desk?.leave(visitor);
      })
      .catch(() => {});
    return visitor;
  }
}

function ownerGone(): FanlightError {
  const message = "the tab that held the engine was closed, and this request with it: ask again";
  return new FanlightError("owner-gone", message);
}
