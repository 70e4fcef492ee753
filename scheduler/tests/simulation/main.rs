//! The controller on simulated devices and texts: what it may lose, what it must gain, how soon it follows.

mod device;
mod text;

use fanlight_messages::draft::{WIDTHS, Width, WidthPolicy};
use fanlight_messages::protocol::controller::{ConfigurePlan, PlanChosen};
use fanlight_scheduler::Controller;

use device::{Curve, Reply, Window, decode};
use text::{DECEPTIVE, Kind, PERIODIC, RANDOM, Text, mixed};

const TOKENS: u64 = 1024;
const SEEDS: u64 = 16;
const PLAIN_STEP: PlanChosen = PlanChosen { width: Width::Off, steps: 1 };

const CURVES: [Curve; 12] = [
    curve("flat", [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    curve("1.3x", [1.0, 1.01, 1.03, 1.07, 1.14, 1.3]),
    curve("2x", [1.0, 1.03, 1.1, 1.22, 1.5, 2.0]),
    curve("3x", [1.0, 1.06, 1.2, 1.45, 2.0, 3.0]),
    curve("4x", [1.0, 1.1, 1.3, 1.7, 2.45, 4.0]),
    curve("6x", [1.0, 1.16, 1.48, 2.13, 3.4, 6.0]),
    curve("6x, late", [1.0, 1.0, 1.0, 1.2, 3.0, 6.0]),
    curve("step at 8", [1.0, 1.02, 1.05, 3.0, 3.1, 3.3]),
    curve("cliff at 16", [1.0, 1.05, 1.1, 1.2, 6.0, 6.5]),
    curve("step at 2", [1.0, 1.8, 1.85, 1.9, 2.0, 2.1]),
    curve("by nodes", [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]),
    Curve { overhead: 0.15, ..curve("dear windows", [1.0, 1.03, 1.1, 1.22, 1.5, 2.0]) },
];

const MIXED: [(&str, Text); 6] = [
    ("mixed 20 %, 0.5", Text::stationary(mixed(0.2, 0.5))),
    ("mixed 50 %, 0.3", Text::stationary(mixed(0.5, 0.3))),
    ("mixed 50 %, 0.7", Text::stationary(mixed(0.5, 0.7))),
    ("mixed 80 %, 0.6", Text::stationary(mixed(0.8, 0.6))),
    ("mixed 80 %, 0.9", Text::stationary(mixed(0.8, 0.9))),
    ("mixed, doubted", Text::stationary(Kind { matched: 0.8, right: 0.8, believed: 0.5 })),
];

const fn curve(name: &'static str, widths: [f64; 6]) -> Curve {
    Curve { name, widths, overhead: 0.02 }
}

fn switching(first: Kind, second: Kind) -> Text {
    Text { kinds: [first, second], stretch: 200 }
}

fn stationary() -> Vec<(&'static str, Text)> {
    let mut all = vec![
        ("random", Text::stationary(RANDOM)),
        ("deceptive", Text::stationary(DECEPTIVE)),
        ("periodic", Text::stationary(PERIODIC)),
    ];
    all.extend(MIXED);
    all
}

fn texts() -> Vec<(&'static str, Text)> {
    let mut all = stationary();
    all.extend(switching_texts());
    all
}

fn switching_texts() -> [(&'static str, Text); 4] {
    [
        ("random, periodic", switching(RANDOM, PERIODIC)),
        ("periodic, random", switching(PERIODIC, RANDOM)),
        ("deceptive, periodic", switching(DECEPTIVE, PERIODIC)),
        ("mixed, random", switching(mixed(0.8, 0.8), RANDOM)),
    ]
}

fn auto() -> ConfigurePlan {
    ConfigurePlan { steps_max: 4, width: WidthPolicy::Auto { max: 32 }, frame_budget_us: None }
}

fn replies(configure: &ConfigurePlan, curve: &Curve, text: &Text, late: bool) -> Vec<Reply> {
    let reply = |seed| decode(&mut Controller::default(), configure, curve, text, (TOKENS, late, seed));
    (0..SEEDS).map(reply).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn mean_us(replies: &[Reply]) -> f64 {
    mean(replies.iter().map(Reply::us_per_token))
}

fn plain_us(curve: &Curve) -> f64 {
    let steps = curve.best_window(Width::Off);
    curve.window_us(PlanChosen { width: Width::Off, steps }) / f64::from(steps)
}

/// Microseconds per token of every width with the window that the controller would take.
fn fixed_us(curve: &Curve, text: &Text) -> Vec<(Width, f64)> {
    let widths = [Width::Off].into_iter().chain(WIDTHS.map(Width::Nodes));
    let of = |width| {
        let steps = curve.best_window(width);
        let mut us = 0.0;
        let mut tokens = 0;
        for seed in 0..SEEDS {
            let mut random = text::Random(seed);
            let mut at = 0;
            while at < TOKENS {
                us += curve.window_us(PlanChosen { width, steps }) / f64::from(steps);
                at += u64::from(text::step(text, at, width, &mut random).emitted);
            }
            tokens += at;
        }
        (width, us / tokens as f64)
    };
    widths.map(of).collect()
}

/// Every curve with every text.
fn for_all(texts: &[(&str, Text)], late: bool, mut check: impl FnMut(&Curve, &Text, &[Reply], &str)) {
    for curve in &CURVES {
        for (name, text) in texts {
            let case = format!("{}, {name}, late: {late}", curve.name);
            check(curve, text, &replies(&auto(), curve, text, late), &case);
        }
    }
}

#[test]
fn it_is_never_more_than_three_percent_slower_than_plain_decoding() {
    let mut worst = (0.0, String::new());
    for late in [false, true] {
        for_all(&texts(), late, |curve, _, replies, case| {
            let slower = mean_us(replies) / plain_us(curve);
            worst = if slower > worst.0 { (slower, case.to_owned()) } else { worst.clone() };
            assert!(slower <= 1.03, "{case}: {slower:.3}");
        });
    }
    println!("most against plain decoding: {worst:.3?}");
}

#[test]
fn it_is_within_ten_percent_of_the_best_fixed_width() {
    let mut worst = (0.0, String::new());
    for_all(&stationary(), false, |curve, text, replies, case| {
        let fixed = fixed_us(curve, text);
        let (width, best) = fixed.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        let slower = mean_us(replies) / best;
        worst = if slower > worst.0 { (slower, case.to_owned()) } else { worst.clone() };
        println!("{case}: {slower:.3} of {width:?}");
    });
    println!("most against the best width: {worst:.3?}");
    assert!(worst.0 <= 1.10, "{worst:.3?}");
}

/// Widths that come within a tenth of the best for one kind of text.
fn good_widths(curve: &Curve, kind: Kind) -> Vec<Width> {
    let fixed = fixed_us(curve, &Text::stationary(kind));
    let best = fixed.iter().map(|(_, us)| *us).fold(f64::INFINITY, f64::min);
    fixed.into_iter().filter(|(_, us)| *us <= 1.1 * best).map(|(width, _)| width).collect()
}

/// Tokens after each switch until two windows in a row have a good width.
fn tokens_until_good(text: &Text, reply: &Reply, good: &[Vec<Width>; 2]) -> Vec<u64> {
    let switches = (1..).map(|k| k * text.stretch).take_while(|at| at + text.stretch <= reply.tokens);
    let until = |at: u64| {
        let widths = &good[(at / text.stretch % 2) as usize];
        let is_good = |w: &Window| w.token >= at && widths.contains(&w.plan.width);
        let found = reply.windows.windows(2).find(|pair| pair.iter().all(is_good));
        found.map_or(text.stretch, |pair| (pair[0].token - at).min(text.stretch))
    };
    switches.map(until).collect()
}

#[test]
fn it_is_back_at_a_good_width_soon_after_a_switch() {
    let mut worst = (0.0, String::new());
    for_all(&switching_texts(), false, |curve, text, replies, case| {
        let good = text.kinds.map(|kind| good_widths(curve, kind));
        let all: Vec<u64> = replies.iter().flat_map(|r| tokens_until_good(text, r, &good)).collect();
        let tokens = mean(all.iter().map(|tokens| *tokens as f64));
        println!("{case}: {tokens:.1}, most {}", all.iter().max().unwrap());
        worst = if tokens > worst.0 { (tokens, case.to_owned()) } else { worst.clone() };
    });
    println!("most tokens: {worst:.1?}");
    assert!(worst.0 <= 64.0, "{worst:.1?}");
}

#[test]
fn windows_stay_within_the_frame_budget() {
    for budget_ms in [1, 12, 16, 33, 50] {
        let configure = ConfigurePlan { frame_budget_us: Some(budget_ms * 1000), ..auto() };
        for curve in &CURVES {
            for (name, text) in texts() {
                let replies = replies(&configure, curve, &text, false);
                let mut us: Vec<f64> = replies.iter().flat_map(|r| &r.windows).map(|w| w.us).collect();
                us.sort_by(f64::total_cmp);
                let p99 = us[us.len() * 99 / 100];
                let limit = budget_ms as f64 * 1000.0 + curve.window_us(PLAIN_STEP);
                assert!(p99 <= limit, "{}, {name}, {budget_ms} ms: {p99:.0} > {limit:.0}", curve.name);
            }
        }
    }
}

#[test]
fn no_width_beyond_the_maximum_is_used() {
    for max in WIDTHS {
        let configure = ConfigurePlan { width: WidthPolicy::Auto { max }, ..auto() };
        let text = Text::stationary(PERIODIC);
        let windows = replies(&configure, &CURVES[0], &text, false).into_iter().flat_map(|r| r.windows);
        let widest = windows.map(|w| w.plan.width.rows()).max().unwrap();
        // All is accepted and costs nothing; sixteen nodes are as deep as more of them.
        assert!(widest <= max && widest >= max.min(16), "{widest} of {max}");
    }
}
