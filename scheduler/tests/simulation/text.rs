//! Texts as a drafter sees them: at every place what a draft promises, how long the match is that it was made
//! from, and whether its node for the next token is right. What is decoded in which steps changes nothing
//! of it.

use fanlight_messages::control::StepRecord;
use fanlight_messages::draft::{DEPTH_MAX, ORDERS, WIDTHS, Width};

/// A small generator of numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One kind of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kind {
    /// How often a match begins where none goes on.
    pub matched: f64,
    /// How often a match goes on: the node of a chain is right.
    pub right: f64,
    /// What the drafter believes that to be.
    pub believed: f64,
}

/// Nothing is ever right, and the drafter hardly promises anything.
pub const RANDOM: Kind = Kind { matched: 0.3, right: 0.0, believed: 0.04 };
/// Nothing is ever right, and the drafter is sure that all is.
pub const DECEPTIVE: Kind = Kind { matched: 0.9, right: 0.0, believed: 0.9 };
/// Everything is right.
pub const PERIODIC: Kind = Kind { matched: 1.0, right: 1.0, believed: 0.99 };

/// A text that has the same acceptance throughout, told truly.
pub const fn mixed(matched: f64, right: f64) -> Kind {
    Kind { matched, right, believed: right }
}

/// Kinds in turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Text {
    pub kinds: [Kind; 2],
    /// Tokens until the kind changes.
    pub stretch: u64,
}

impl Text {
    pub const fn stationary(kind: Kind) -> Self {
        Self { kinds: [kind; 2], stretch: u64::MAX }
    }

    fn kind(&self, token: u64) -> Kind {
        self.kinds[(token / self.stretch % 2) as usize]
    }
}

/// Among how many siblings a width looks for the next token: a chain takes seven nodes and is eight deep at
/// most.
fn siblings(width: u32) -> f64 {
    match width {
        32 => 1.6,
        16 => 1.3,
        _ => 1.0,
    }
}

fn depth(width: u32) -> u32 {
    width.saturating_sub(1).min(DEPTH_MAX)
}

/// How likely one of several siblings is right.
fn any(right: f64, siblings: f64) -> f64 {
    1.0 - (1.0 - right).powf(siblings)
}

/// What the drafter has at one place.
#[derive(Debug, Clone, Copy)]
struct Place {
    match_len: u32,
    /// Accepted nodes that are promised to each width but the first, in 64ths.
    expected: [u32; 5],
    /// How many siblings had to be looked at to find the next token; infinite when none has it.
    siblings: f64,
}

/// A text written down.
#[derive(Debug, Clone)]
pub struct Written(Vec<Place>);

impl Written {
    /// At least `tokens` tokens, and as many more as a step looks at.
    pub fn new(text: &Text, tokens: u64, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut places: Vec<Place> = Vec::new();
        for token in 0..tokens + u64::from(2 * DEPTH_MAX) {
            let kind = text.kind(token);
            let before = places.last().copied().filter(|place| place.siblings.is_finite());
            let begins = random.unit() < kind.matched;
            let fresh = 1 + (3.0 * random.unit()) as u32;
            let match_len = match before {
                // A sibling is another match, and a shorter one.
                Some(place) if place.siblings > 1.0 => fresh.min(place.match_len),
                Some(place) => (place.match_len + 1).min(ORDERS),
                None => fresh * u32::from(begins),
            };
            // Matches differ in what they are worth.
            let doubt = 0.7 + 0.6 * random.unit();
            let spread = |p: f64| if p >= 1.0 || p <= 0.0 { p } else { (1.0 - (1.0 - p) * doubt).max(0.0) };
            let (right, believed, luck) = (spread(kind.right), spread(kind.believed), random.unit());
            let found = [1.0, 1.3, 1.6].into_iter().find(|siblings| luck < any(right, *siblings));
            let promise = |at: usize| {
                let each = any(believed, siblings(WIDTHS[at + 1]));
                (1..=depth(WIDTHS[at + 1])).map(|d| each.powi(d as i32)).sum::<f64>()
            };
            let is_drafted = match_len > 0;
            places.push(Place {
                match_len,
                expected: std::array::from_fn(|at| if is_drafted { (64.0 * promise(at)) as u32 } else { 0 }),
                siblings: found.filter(|_| is_drafted).unwrap_or(f64::INFINITY),
            });
        }
        Self(places)
    }

    /// A step at `token`.
    pub fn step(&self, token: u64, width: Width) -> StepRecord {
        let Width::Nodes(nodes) = width else {
            return StepRecord { live: 1, emitted: 1, ..StepRecord::default() };
        };
        let places = &self.0[token as usize..];
        let chain = places.iter().take(depth(nodes) as usize);
        let accepted = chain.take_while(|place| place.siblings <= siblings(nodes)).count() as u32;
        let Place { match_len, expected, .. } = places[0];
        let drafted = if match_len > 0 { 32 } else { 1 };
        StepRecord { live: nodes, emitted: accepted + 1, accepted, match_len, drafted, expected }
    }

    /// Tokens per step of one width, over `tokens` tokens.
    pub fn tokens_per_step(&self, width: Width, tokens: u64) -> f64 {
        let (mut at, mut steps) = (0, 0);
        while at < tokens {
            at += u64::from(self.step(at, width).emitted);
            steps += 1;
        }
        at as f64 / f64::from(steps)
    }
}
