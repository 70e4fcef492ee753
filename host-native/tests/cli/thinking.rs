//! What a model thinks, apart from what it answers.

use fanlight_tests::synth::{Scripted, Typed};

use super::{fanlight, file, json_lines};

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is not defined \
    or enable_thinking %}<think>\n{% endif %}{% endif %}";

/// A model whose template opens a thought unless it is told not to, and which closes it.
fn thinker() -> Scripted {
    let specials = [
        ("<think>", Typed::UserDefined),
        ("</think>", Typed::UserDefined),
        ("<|im_start|>", Typed::Control),
        ("<|im_end|>", Typed::Control),
    ];
    let mut model = Scripted::new(TEMPLATE, &specials);
    model.says("\n", &["2", "+", "1", "=", "3", "?", "</think>", "Y", "e", "s", "<|im_end|>"]);
    model
}

/// Seen: `2+1=3?</think>Yes` was printed as the answer.
#[test]
fn n10_thoughts_are_no_part_of_the_answer() {
    let path = file("thinking.gguf", &thinker().build().unwrap().to_bytes());
    let run = |options: &[&str]| {
        let output = fanlight("run", &path, &[&["-p", "Hi", "--context", "256"], options].concat());
        assert!(output.status.success(), "{output:?}");
        let [answer, notes] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (answer, notes)
    };
    for think in ["on", "template"] {
        let (answer, notes) = run(&["--think", think]);
        assert_eq!(answer, "Yes\n", "{notes}");
        assert!(!notes.contains("2+1"), "{notes}");
        let (answer, notes) = run(&["--think", think, "--show-thinking"]);
        assert_eq!(answer, "Yes\n", "{notes}");
        assert!(notes.contains("2+1=3?"), "{notes}");
    }
    let lines = json_lines("run", &path, &["-p", "Hi", "--context", "256", "--think", "on", "--json"]);
    let last = lines.last().unwrap();
    assert_eq!((last["text"].as_str(), last["reasoning"].as_str()), (Some("Yes"), Some("2+1=3?")), "{last}");
    let said = |key: &str| -> String {
        lines.iter().filter_map(|line| line.get("ids").and(line[key].as_str())).collect()
    };
    assert_eq!((said("text").as_str(), said("reasoning").as_str()), ("Yes", "2+1=3?"));
    // Told not to think it is not in a thought, so a closing mark is text.
    assert_eq!(run(&["--think", "off"]).0, "2+1=3?</think>Yes\n");
}
