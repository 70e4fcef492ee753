//! Texts as a drafter sees them: what a draft promises at a place, and how far it turns out right.

use fanlight_messages::control::StepRecord;
use fanlight_messages::draft::{WIDTHS, Width};

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
    /// How often a draft finds a match.
    pub matched: f64,
    /// How often a node of the only chain is right, given that its parent was.
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

    pub fn kind(&self, token: u64) -> Kind {
        self.kinds[(token / self.stretch % 2) as usize]
    }
}

/// How likely a node at each depth is right when so many nodes are drafted: a chain first, then siblings too.
fn chance(right: f64, width: u32) -> (i32, f64) {
    let siblings = match width {
        32 => 1.6,
        16 => 1.3,
        _ => 1.0,
    };
    (width.saturating_sub(1).min(8) as i32, 1.0 - (1.0 - right).powf(siblings))
}

/// Expected accepted nodes: the sum over depths of the chance that all nodes down to there are right.
fn promise(right: f64, width: u32) -> f64 {
    let (depth, right) = chance(right, width);
    (1..=depth).map(|d| right.powi(d)).sum()
}

/// A step at `token`.
pub fn step(text: &Text, token: u64, width: Width, random: &mut Random) -> StepRecord {
    let Width::Nodes(nodes) = width else {
        return StepRecord { live: 1, emitted: 1, ..StepRecord::default() };
    };
    let kind = text.kind(token);
    if random.unit() >= kind.matched {
        return StepRecord { live: 1, emitted: 1, drafted: 1, ..StepRecord::default() };
    }
    // Matches differ in what they are worth.
    let quality = 0.7 + 0.6 * random.unit();
    let spread = |p: f64| 1.0 - (1.0 - p) * if p < 1.0 { quality } else { 1.0 };
    let (believed, right) = (spread(kind.believed).max(0.0), kind.right);
    let right = if right > 0.0 { spread(right).max(0.0) } else { 0.0 };
    let (depth, each) = chance(right, nodes);
    let accepted = (0..depth).take_while(|_| random.unit() < each).count() as u32;
    let promised = |at: usize| (64.0 * promise(believed, WIDTHS[at + 1])) as u32;
    StepRecord {
        live: nodes,
        emitted: accepted + 1,
        accepted,
        match_len: 1 + (7.99 * (1.3 - quality) / 0.6) as u32,
        drafted: 32,
        expected: std::array::from_fn(promised),
    }
}
