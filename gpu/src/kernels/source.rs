//! Renders shader templates and derives bind group layouts from what they declare.

use std::sync::OnceLock;

use fanlight_messages::draft::{
    ANCESTOR_STRIDE, CHOICES_WORD, DEPTH_MAX, EXPECTED_WORD, MEMORY_TOKENS, PATH_WORD, VISITED_WORD,
};
use fanlight_messages::sampling::{
    BIAS_WORD, LOGIT_BIASES_MAX, SELECTION_BINS, SELECTION_HISTOGRAM_WORD, SELECTION_HISTOGRAMS,
    SELECTION_ROW_WORDS, SELECTION_STATE_WORDS,
};
use minijinja::{Environment, Value, context};

/// How a binding is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binding {
    /// `var<storage, read>`.
    Read(u32),
    /// `var<storage, read_write>`.
    Write(u32),
    /// `var<uniform>`.
    Uniform(u32),
}

impl Binding {
    /// The binding number.
    pub fn number(self) -> u32 {
        match self {
            Self::Read(n) | Self::Write(n) | Self::Uniform(n) => n,
        }
    }
}

/// A rendered kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Shader {
    /// For people and error messages.
    pub label: String,
    /// WGSL that naga and tint both accept.
    pub wgsl: String,
    /// Bindings of group 0, in order of their numbers.
    pub bindings: Vec<Binding>,
    /// Pipeline constants.
    pub constants: Vec<(&'static str, f64)>,
}

/// A template could not be rendered: a bug of ours, caught by the test that renders every variant.
#[derive(Debug, thiserror::Error)]
#[error("shader template {template} does not render: {reason}")]
pub struct RenderError {
    /// The template's file name.
    pub template: String,
    /// What the template engine said.
    pub reason: String,
}

macro_rules! templates {
    ($($name:literal => $path:literal),* $(,)?) => {
        const TEMPLATES: &[(&str, &str)] = &[$(($name, include_str!($path))),*];
    };
}
templates! {
    "control" => "shared/control.wgsl",
    "broken" => "shared/broken.wgsl",
    "capped" => "shared/capped.wgsl",
    "zero" => "shared/zero.wgsl",
    "quantise" => "shared/quantise.wgsl",
    "step_words" => "shared/step_words.wgsl",
    "integer" => "shared/integer.wgsl",
    "codes_input" => "shared/codes_input.wgsl",
    "values_input" => "shared/values_input.wgsl",
    "input_codes" => "shared/input_codes.wgsl",
    "input_values" => "shared/input_values.wgsl",
    "nibble_scale" => "formats/nibble_scale.wgsl",
    "nibble_scale_min" => "formats/nibble_scale_min.wgsl",
    "int8_scale" => "formats/int8_scale.wgsl",
    "super_scale_min" => "formats/super_scale_min.wgsl",
    "half_scale" => "formats/half_scale.wgsl",
    "half_scale_min" => "formats/half_scale_min.wgsl",
    "float" => "formats/float.wgsl",
    "embed" => "embed/embed.wgsl.j2",
    "normalize" => "normalize/normalize.wgsl.j2",
    "matrix" => "matrix/matrix.wgsl.j2",
    "gemm" => "gemm/gemm.wgsl.j2",
    "heads" => "heads/heads.wgsl.j2",
    "attention" => "attention/attention.wgsl.j2",
    "attention_access" => "attention/access.wgsl.j2",
    "attention_weights" => "attention/weights.wgsl.j2",
    "fold" => "fold/fold.wgsl.j2",
    "activate" => "activate/activate.wgsl.j2",
    "largest" => "shared/largest.wgsl",
    "last_position" => "shared/last_position.wgsl",
    "mix" => "shared/mix.wgsl",
    "row_values" => "shared/row_values.wgsl",
    "sampling_words" => "shared/sampling_words.wgsl",
    "wide" => "shared/wide.wgsl",
    "logits" => "logits/logits.wgsl",
    "choose" => "choose/choose.wgsl",
    "adjust" => "adjust/adjust.wgsl",
    "select" => "weigh/select.wgsl",
    "weigh" => "weigh/weigh.wgsl",
    "noise" => "sample/noise.wgsl",
    "sample" => "sample/sample.wgsl",
    "accept" => "accept/accept.wgsl",
    "scan" => "scan/scan.wgsl",
    "draft" => "draft/draft.wgsl",
    "draft_learn" => "draft/learn.wgsl",
    "draft_trie" => "draft/trie.wgsl",
    "repack" => "repack/repack.wgsl.j2",
    "repack_nibble" => "repack/nibble.wgsl.j2",
    "repack_int8" => "repack/int8.wgsl.j2",
    "repack_super_min" => "repack/super_min.wgsl.j2",
    "repack_q6k" => "repack/q6k.wgsl.j2",
    "repack_q3k" => "repack/q3k.wgsl.j2",
    "repack_q2k" => "repack/q2k.wgsl.j2",
    "repack_float" => "repack/float.wgsl.j2",
}

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::SemiStrict);
        for (name, source) in TEMPLATES {
            // A template that does not parse is reported when it is asked for, by name.
            if let Err(error) = environment.add_template(name, source) {
                tracing::error!(%error, name, "shader template does not parse");
            }
        }
        environment
    })
}

/// Renders `parts` with one context and joins them.
pub(super) fn render(
    label: String,
    parts: &[&str],
    context: Value,
    constants: Vec<(&'static str, f64)>,
) -> Result<Shader, RenderError> {
    let mut wgsl = String::new();
    for name in parts {
        let failed = |reason: minijinja::Error| RenderError {
            template: (*name).to_owned(),
            reason: format!("{reason:#}"),
        };
        let template = environment().get_template(name).map_err(failed)?;
        wgsl.push_str(&template.render(&context).map_err(failed)?);
        wgsl.push('\n');
    }
    if wgsl.contains("dot4I8Packed") {
        wgsl.insert_str(0, "requires packed_4x8_integer_dot_product;\n");
    }
    let bindings = declared_bindings(&wgsl);
    Ok(Shader { label, wgsl, bindings, constants })
}

/// What the `step_words` part needs.
pub(super) fn step_words() -> Value {
    context! {
        memory_tokens => MEMORY_TOKENS, depth_max => DEPTH_MAX, expected_word => EXPECTED_WORD,
        visited_word => VISITED_WORD, choices_word => CHOICES_WORD, path_word => PATH_WORD,
        ancestor_stride => ANCESTOR_STRIDE,
    }
}

/// What the `sampling_words` and `select` parts need.
pub(super) fn sampling_words() -> Value {
    context! {
        bias_word => BIAS_WORD, biases_max => LOGIT_BIASES_MAX, bins => SELECTION_BINS,
        row_words => SELECTION_ROW_WORDS, state_words => SELECTION_STATE_WORDS,
        histograms => SELECTION_HISTOGRAMS, histogram_word => SELECTION_HISTOGRAM_WORD,
    }
}

/// The bindings that the text declares: the layout can then never disagree with the shader.
fn declared_bindings(wgsl: &str) -> Vec<Binding> {
    let mut bindings: Vec<Binding> = wgsl
        .lines()
        .filter_map(|line| {
            let rest = line.trim_start().strip_prefix("@group(0) @binding(")?;
            let (number, rest) = rest.split_once(')')?;
            let number = number.parse().ok()?;
            let rest = rest.trim_start();
            if rest.starts_with("var<uniform>") {
                Some(Binding::Uniform(number))
            } else if rest.starts_with("var<storage, read_write>") {
                Some(Binding::Write(number))
            } else {
                Some(Binding::Read(number))
            }
        })
        .collect();
    bindings.sort_by_key(|b| b.number());
    bindings
}
