//! Renders shader templates and derives bind group layouts from what they declare.

use std::sync::OnceLock;

use minijinja::{Environment, Value};

use super::words;

/// How a binding is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    Write,
    /// `var<uniform>`.
    Uniform,
}

/// A variable of a shader that a buffer is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Its number in group 0.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// How it is used.
    pub access: Access,
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

/// Template files by name, the kernel's own first.
macro_rules! templates {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!($path))),*] };
}
pub(crate) use templates;

type Templates = &'static [(&'static str, &'static str)];

/// What the templates of kernels include.
const PARTS: Templates = templates![
    "parts/broken.wgsl",
    "parts/capped.wgsl",
    "parts/codes_input.wgsl",
    "parts/control.wgsl.j2",
    "parts/forms.wgsl.j2",
    "parts/input.wgsl.j2",
    "parts/input_codes.wgsl",
    "parts/input_values.wgsl",
    "parts/integer.wgsl.j2",
    "parts/largest.wgsl",
    "parts/last_position.wgsl.j2",
    "parts/mix.wgsl",
    "parts/quantise.wgsl.j2",
    "parts/row_values.wgsl",
    "parts/sampling_words.wgsl.j2",
    "parts/select.wgsl.j2",
    "parts/step_words.wgsl.j2",
    "parts/values_input.wgsl",
    "parts/weights.wgsl.j2",
    "parts/wide.wgsl",
    "parts/zero.wgsl",
    "formats/float.wgsl.j2",
    "formats/half_scale.wgsl.j2",
    "formats/half_scale_min.wgsl",
    "formats/int8_scale.wgsl",
    "formats/nibble_scale.wgsl.j2",
    "formats/nibble_scale_min.wgsl.j2",
    "formats/super_scale_min.wgsl.j2",
];

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(minijinja::UndefinedBehavior::SemiStrict);
        words::add_to(&mut environment);
        add(&mut environment, PARTS);
        environment
    })
}

fn add(environment: &mut Environment<'static>, templates: Templates) {
    for (name, source) in templates {
        // A template that does not parse is reported when it is asked for, by name.
        if let Err(error) = environment.add_template(name, source) {
            tracing::error!(%error, name, "shader template does not parse");
        }
    }
}

/// Renders the first of a kernel's templates, which includes the others and the parts that it stands on.
pub(crate) fn render(
    label: String,
    templates: Templates,
    context: Value,
    constants: Vec<(&'static str, f64)>,
) -> Result<Shader, RenderError> {
    let mut environment = environment().clone();
    add(&mut environment, templates);
    let name = templates.first().map_or("", |(name, _)| name);
    let rendered = environment.get_template(name).and_then(|template| template.render(&context));
    let mut wgsl =
        rendered.map_err(|error| RenderError { template: name.to_owned(), reason: format!("{error:#}") })?;
    if wgsl.contains("dot4I8Packed") {
        wgsl.insert_str(0, "requires packed_4x8_integer_dot_product;\n");
    }
    let bindings = declared_bindings(&wgsl);
    Ok(Shader { label, wgsl, bindings, constants })
}

/// The bindings that the text declares: the layout can then never disagree with the shader.
fn declared_bindings(wgsl: &str) -> Vec<Binding> {
    let mut bindings: Vec<Binding> = wgsl.lines().filter_map(declared_binding).collect();
    bindings.sort_by_key(|binding| binding.number);
    bindings
}

fn declared_binding(line: &str) -> Option<Binding> {
    let rest = line.trim_start().strip_prefix("@group(0) @binding(")?;
    let (number, rest) = rest.split_once(") var<")?;
    let (space, rest) = rest.split_once("> ")?;
    let (name, _) = rest.split_once(':')?;
    let access = match space {
        "uniform" => Access::Uniform,
        "storage, read_write" => Access::Write,
        _ => Access::Read,
    };
    Some(Binding { number: number.parse().ok()?, name: name.to_owned(), access })
}
