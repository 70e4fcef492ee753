//! Who is served next. A line per session, lines in turn; among their heads the one goes first that the cache
//! holds most of, but nobody is overtaken more often than twice. Pure.

/// Requests that wait while one runs.
pub const WAITING_MAX: usize = 4;
/// Of these, as many as one session may hold while others wait.
const SESSION_MAX: usize = 2;
/// How often one that waits may be overtaken.
const OVERTAKEN_MAX: u32 = 2;

/// One that waits.
#[derive(Debug)]
struct Place<T> {
    session: String,
    item: T,
    overtaken: u32,
}

/// Those who wait, oldest first.
#[derive(Debug)]
pub struct Line<T> {
    places: Vec<Place<T>>,
    /// Whose turn was last.
    last_session: String,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { places: Vec::new(), last_session: String::new() }
    }
}

impl<T> Line<T> {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Drops those who have left.
    pub fn keep(&mut self, mut is_there: impl FnMut(&T) -> bool) {
        self.places.retain(|place| is_there(&place.item));
    }

    /// Whether another of this session finds a place.
    pub fn has_room(&self, session: &str) -> bool {
        let of_session = self.places.iter().filter(|place| place.session == session).count();
        let others_wait = of_session < self.places.len();
        self.places.len() < WAITING_MAX && !(others_wait && of_session >= SESSION_MAX)
    }

    /// Takes a place, which [`Line::has_room`] has.
    pub fn enter(&mut self, session: String, item: T) {
        self.places.push(Place { session, item, overtaken: 0 });
    }

    /// The next one; `held` tells how many tokens of a request the cache holds.
    pub fn next(&mut self, held: impl Fn(&T) -> usize) -> Option<T> {
        let heads = self.heads();
        let first = *heads.first()?;
        let urgent = heads.iter().copied().find(|&at| self.places[at].overtaken >= OVERTAKEN_MAX);
        let chosen = urgent.unwrap_or_else(|| {
            // The first of several that are equal: whose turn it is.
            heads.iter().copied().fold(first, |best, at| {
                if held(&self.places[at].item) > held(&self.places[best].item) { at } else { best }
            })
        });
        for &at in heads.iter().take_while(|&&at| at != chosen) {
            self.places[at].overtaken += 1;
        }
        let place = self.places.remove(chosen);
        self.last_session = place.session;
        Some(place.item)
    }

    /// The oldest of each session, by turns: the session that was served last comes last.
    fn heads(&self) -> Vec<usize> {
        let mut heads: Vec<usize> = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            if !heads.iter().any(|&head| self.places[head].session == place.session) {
                heads.push(at);
            }
        }
        heads.sort_by_key(|&at| self.places[at].session == self.last_session);
        heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(places: &[(&str, u32)]) -> Line<u32> {
        let mut line = Line::default();
        for (session, item) in places {
            assert!(line.has_room(session));
            line.enter((*session).to_owned(), *item);
        }
        line
    }

    #[test]
    fn sessions_take_turns() {
        let mut line = line(&[("a", 1), ("a", 2), ("b", 3), ("c", 4)]);
        let order: Vec<u32> = std::iter::from_fn(|| line.next(|_| 0)).collect();
        assert_eq!(order, [1, 3, 2, 4]);
    }

    #[test]
    fn what_the_cache_holds_goes_first_but_overtakes_nobody_three_times() {
        let mut line = line(&[("a", 1), ("b", 100), ("c", 101)]);
        let held = |item: &u32| *item as usize;
        assert_eq!(line.next(held), Some(101));
        line.enter("d".into(), 102);
        assert_eq!(line.next(held), Some(102));
        assert_eq!(line.next(held), Some(1), "overtaken twice");
        assert_eq!(line.next(held), Some(100));
        assert_eq!(line.next(held), None);
    }

    #[test]
    fn the_fifth_finds_no_place_and_nobody_takes_all() {
        let mut full = line(&[("a", 1), ("a", 2), ("a", 3), ("a", 4)]);
        assert!(!full.has_room("b"));
        full.keep(|item| *item == 4);
        assert_eq!(full.len(), 1);
        let shared = line(&[("b", 1), ("a", 2), ("a", 3)]);
        assert!(!shared.has_room("a") && shared.has_room("b") && shared.has_room("c"));
    }
}
