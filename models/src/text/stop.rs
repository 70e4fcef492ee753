//! Stop texts: where one first occurs in a reply, the reply ends just before it.

/// Texts one request may stop at: as many as the widest public interface allows.
pub const STOPS_MAX: usize = 16;
/// Bytes of one stop text: what is held back can never be longer.
pub const STOP_BYTES_MAX: usize = 1024;

/// Passes text through until a stop text occurs; what may be the beginning of one is held back.
#[derive(Debug, Clone, Default)]
pub struct StopFilter {
    stops: Vec<String>,
    held: String,
    stopped_at: Option<String>,
}

impl StopFilter {
    /// For these texts.
    pub fn new(stops: &[String]) -> Self {
        Self { stops: stops.to_vec(), held: String::new(), stopped_at: None }
    }

    /// Adds text and returns what is certain to belong to the reply. After a stop nothing does.
    pub fn push(&mut self, text: &str) -> String {
        if self.has_stopped() {
            return String::new();
        }
        if self.stops.is_empty() {
            return text.to_owned();
        }
        self.held.push_str(text);
        // The one that is complete first counts, however the text arrives; of two, the one that began first.
        let places = self.stops.iter().filter_map(|stop| {
            let at = self.held.find(stop.as_str())?;
            Some((at + stop.len(), at, stop))
        });
        if let Some((_, at, stop)) = places.min() {
            self.stopped_at = Some(stop.clone());
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let keep = self.stops.iter().map(|stop| beginning_len(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// True once a stop text has occurred.
    pub fn has_stopped(&self) -> bool {
        self.stopped_at.is_some()
    }

    /// The stop text that has occurred.
    pub fn stopped_at(&self) -> Option<&str> {
        self.stopped_at.as_deref()
    }

    /// The reply ended otherwise: what was held back belongs to it.
    pub fn finish(self) -> String {
        self.held
    }
}

/// Bytes at the end of `text` that are the beginning of `stop`.
fn beginning_len(text: &str, stop: &str) -> usize {
    let longest = text.len().min(stop.len().saturating_sub(1));
    (1..=longest).rev().find(|len| text.as_bytes().ends_with(&stop.as_bytes()[..*len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        let mut filter = StopFilter::new(&stops);
        let mut text: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        let has_stopped = filter.has_stopped();
        text.push_str(&filter.finish());
        (text, has_stopped)
    }

    #[test]
    fn f01_a_stop_text_across_tokens_is_cut_exactly() {
        assert_eq!(run(&["\n\nUser:"], &["Hi", ".\n", "\nUs", "er", ": more"]), ("Hi.".into(), true));
        assert_eq!(run(&["STOP"], &["one S", "T", "O", "Q two"]), ("one STOQ two".into(), false));
        assert_eq!(run(&["aab"], &["aa", "ab"]), ("a".into(), true));
        assert_eq!(run(&["Ende", "ö"], &["sch", "ön Ende"]), ("sch".into(), true));
    }

    #[test]
    fn f02_what_is_held_back_comes_out_at_the_end() {
        assert_eq!(run(&["###"], &["a #", "#"]), ("a ##".into(), false));
        assert_eq!(run(&["###"], &[]), (String::new(), false));
        assert_eq!(run(&["Alice:"], &[" Alice", "!"]), (" Alice!".into(), false));
    }

    #[test]
    fn every_cut_of_a_text_gives_the_same_reply() {
        let text = "The cat sat. é## The ## cat\n";
        let cases = [
            (&["##"][..], Some("The cat sat. é")),
            (&["sat. ##", "cat\n"], Some("The cat sat. é## The ## ")),
            (&["é##", "e c"], Some("Th")),
            (&["cat sat", "at s"], Some("The c")),
            (&["cat", "cat sat"], Some("The ")),
            (&["zebra"], None),
        ];
        for (stops, cut) in cases {
            let whole = run(stops, &[text]);
            assert_eq!(whole, (cut.unwrap_or(text).to_owned(), cut.is_some()));
            let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            for (a, b) in
                places.iter().flat_map(|a| places.iter().map(move |b| (*a, *b))).filter(|(a, b)| a <= b)
            {
                assert_eq!(run(stops, &[&text[..a], &text[a..b], &text[b..]]), whole, "cut at {a} and {b}");
            }
        }
    }
}
