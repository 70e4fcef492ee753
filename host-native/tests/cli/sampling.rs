//! Sampling on the command line: what is drawn, that speculation changes none of it, and what is refused.

use super::{file, model, refusal, run_json, usage_error};

const ALL_ON: [&str; 20] = [
    "--temperature",
    "0.8",
    "--top-k",
    "50",
    "--top-p",
    "0.95",
    "--min-p",
    "0.01",
    "--repeat-penalty",
    "1.1",
    "--frequency-penalty",
    "0.1",
    "--presence-penalty",
    "0.1",
    "--logit-bias",
    "5=1.5",
    "--logit-bias",
    "9=-10000",
    "--seed",
    "42",
];

#[test]
fn a_drawn_reply_is_the_same_at_every_width_and_says_its_seed() {
    let path = file("sampling.gguf", &model().to_bytes());
    let last = |options: &[&str]| run_json(&path, options).pop().unwrap();
    let drawn = last(&ALL_ON);
    assert_eq!(drawn["seed"], 42);
    assert!(!drawn["output_ids"].as_array().unwrap().contains(&9.into()), "a banned token: {drawn}");
    let wide = last(&[&ALL_ON[..], &["--width", "8", "--window", "2"]].concat());
    let auto = last(&[&ALL_ON[..], &["--width", "auto", "--cache", "off"]].concat());
    for key in ["finish", "output_ids", "text", "logits_hash"] {
        assert_eq!((&wide[key], &auto[key]), (&drawn[key], &drawn[key]), "{key}");
    }
    let greedy = last(&[]);
    assert!(greedy["seed"].is_null(), "{greedy}");
    assert_ne!(greedy["output_ids"], drawn["output_ids"]);
    // Report F08: without a seed another one each time, which can be asked for again.
    let hot = ["--temperature", "3"];
    let (one, two) = (last(&hot), last(&hot));
    assert_ne!(one["seed"], two["seed"]);
    let again = last(&[&hot[..], &["--seed", &one["seed"].to_string()]].concat());
    assert_eq!(again["output_ids"], one["output_ids"]);
}

/// Report F06: values that make no sense are refused in one line, before anything is opened.
#[test]
fn f06_values_outside_their_range_are_refused() {
    for (option, value, wanted) in [
        ("--temperature", "-1", "use 0, or 1e-9 to 100"),
        ("--temperature", "NaN", "temperature NaN"),
        ("--temperature", "1e9", "temperature 1000000000"),
        ("--top-p", "1.5", "top-p 1.5"),
        ("--min-p", "-0.1", "min-p -0.1"),
        ("--repeat-penalty", "0", "repetition penalty 0"),
        ("--frequency-penalty", "3", "frequency penalty 3"),
        ("--presence-penalty", "inf", "presence penalty inf"),
        ("--logit-bias", "1=1e9", "logit bias 1000000000"),
        ("--logit-bias", "five", "use ID=BIAS"),
        ("--top-k", "-1", "--top-k"),
        ("--seed", "-1", "--seed"),
        ("--seed", "18446744073709551616", "--seed"),
    ] {
        let line = usage_error(&["--raw", "-p", "sea", &format!("{option}={value}")]);
        assert!(line.contains(wanted), "{option} {value}: {line}");
    }
    // How many tokens there are, only the model says.
    let path = file("sampling-refused.gguf", &model().to_bytes());
    let line = refusal("run", &path, &["--raw", "-p", "sea", "--logit-bias", "99999999=1"]);
    assert!(line.contains("logit bias for token 99999999 is out of range"), "{line}");
}
