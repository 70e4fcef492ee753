//! Rotary position tables: read from metadata, resolved into frequencies with every scaling rule applied.
//!
//! Computed in f64 with `libm`, so that every platform gets the same bits.

use std::collections::BTreeMap;

use fanlight_messages::program::{LongRope, RopePairing, RopeSpec, VectorPart};

use super::error::ArchError;
use super::hyper::Hyperparameters;
use crate::spec::{RopeScaling, RotarySpec};

/// Base where the file gives none.
pub(super) const BASE_DEFAULT: f32 = 10_000.0;
/// YaRN's published bounds, in rotations within the original context.
const BETA_FAST_DEFAULT: f32 = 32.0;
const BETA_SLOW_DEFAULT: f32 = 1.0;

/// Reads `rope.*` as it applies to unwindowed layers.
pub(super) fn read_rotary(
    hyper: &Hyperparameters<'_>,
    pairing: RopePairing,
    divisors: Option<VectorPart>,
) -> Result<RotarySpec, ArchError> {
    let dimensions = read_dimensions(hyper)?;
    let base = match hyper.positive("rope.freq_base")? {
        Some(base) if base <= 1.0 => return Err(hyper.refuse("rope.freq_base", base, "a number above 1")),
        base => base.unwrap_or(BASE_DEFAULT),
    };
    let scaling = read_scaling(hyper, divisors.is_some())?;
    let attention_factor = hyper.positive("rope.scaling.attn_factor")?.unwrap_or(1.0);
    let (long, query_factor) = (None, None);
    Ok(RotarySpec { dimensions, base, pairing, scaling, attention_factor, divisors, long, query_factor })
}

/// Keys under `rope.` that are read here, each under one scaling rule at least.
const READ: [&str; 12] = [
    "freq_base",
    "dimension_count",
    "scale_linear",
    "scaling.type",
    "scaling.factor",
    "scaling.attn_factor",
    "scaling.original_context_length",
    "scaling.yarn_ext_factor",
    "scaling.yarn_attn_factor",
    "scaling.yarn_log_multiplier",
    "scaling.yarn_beta_fast",
    "scaling.yarn_beta_slow",
];
/// Keys under `rope.` that change nothing here: a mark of how a model was trained, and how the pairs of a
/// head are shared out among axes of an image, which have one position in text.
const NEUTRAL: [&str; 4] = ["scaling.finetuned", "dimension_sections", "mrope_section", "mrope_interleaved"];

/// Refuses keys under `rope.` that nothing reads: each of them changes every bit of a reply. `more` are those
/// that the architecture reads beside the common ones.
pub(super) fn refuse_unknown_keys(hyper: &Hyperparameters<'_>, more: &[&str]) -> Result<(), ArchError> {
    let prefix = hyper.key("rope.");
    for (key, _) in hyper.metadata().entries() {
        let Some(name) = key.strip_prefix(&prefix) else { continue };
        if !READ.iter().chain(&NEUTRAL).chain(more).any(|known| *known == name) {
            return Err(ArchError::UnknownRopeKey { key: key.clone() });
        }
    }
    Ok(())
}

/// Where positions begin to need another table or factor.
pub(super) fn original_context_len(hyper: &Hyperparameters<'_>) -> Result<u32, ArchError> {
    let name = "rope.scaling.original_context_length";
    match hyper.u32(name)?.unwrap_or(hyper.context_len_max) {
        0 => Err(hyper.refuse(name, 0, "at least 1")),
        len => Ok(len),
    }
}

/// Elements of a head that rotate.
pub(super) fn read_dimensions(hyper: &Hyperparameters<'_>) -> Result<u32, ArchError> {
    let name = "rope.dimension_count";
    let dimensions = hyper.u32(name)?.unwrap_or(hyper.head_len);
    if dimensions == 0 || dimensions > hyper.head_len || !dimensions.is_multiple_of(2) {
        return Err(hyper.refuse(
            name,
            dimensions,
            format!("an even number up to the head's {}", hyper.head_len),
        ));
    }
    Ok(dimensions)
}

fn read_scaling(hyper: &Hyperparameters<'_>, has_divisors: bool) -> Result<RopeScaling, ArchError> {
    let name = "rope.scaling.type";
    let factor = match hyper.positive("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        // Files from before scaling types.
        None => hyper.positive("rope.scale_linear")?,
    };
    let scaling_type = hyper.text(name)?;
    match scaling_type.as_deref() {
        Some("none") => Ok(RopeScaling::None),
        None | Some("linear") => Ok(match factor {
            Some(factor) if factor != 1.0 => RopeScaling::Linear { factor },
            _ => RopeScaling::None,
        }),
        Some("yarn") => read_yarn(hyper, factor),
        // Converters resolve these rules into tensors of divisors.
        Some("llama3" | "longrope") if has_divisors => Ok(RopeScaling::None),
        Some("llama3") => Err(ArchError::MissingTensor { tensor: "rope_freqs.weight".to_owned() }),
        Some(other) => Err(hyper.unsupported(name, other)),
    }
}

fn read_yarn(hyper: &Hyperparameters<'_>, factor: Option<f32>) -> Result<RopeScaling, ArchError> {
    for name in ["rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"] {
        if let Some(value) = hyper.f32(name)?.filter(|value| *value != 1.0) {
            return Err(hyper.unsupported(name, value));
        }
    }
    let factor = match factor {
        Some(factor) if factor >= 1.0 => factor,
        other => return Err(hyper.refuse("rope.scaling.factor", other.unwrap_or(0.0), "at least 1")),
    };
    let original_context_len = original_context_len(hyper)?;
    let log_multiplier = hyper.positive("rope.scaling.yarn_log_multiplier")?.unwrap_or(0.0);
    let beta_fast = hyper.positive("rope.scaling.yarn_beta_fast")?.unwrap_or(BETA_FAST_DEFAULT);
    let beta_slow = hyper.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(BETA_SLOW_DEFAULT);
    if beta_fast <= beta_slow {
        return Err(hyper.refuse("rope.scaling.yarn_beta_fast", beta_fast, format!("more than {beta_slow}")));
    }
    Ok(RopeScaling::Yarn { factor, original_context_len, beta_fast, beta_slow, log_multiplier })
}

/// Computes the table. `small` holds the values of the tensors that `ModelSpec::small_tensors` lists.
pub(super) fn resolve(
    rotary: &RotarySpec,
    small: &BTreeMap<String, Vec<f32>>,
) -> Result<RopeSpec, ArchError> {
    let inverse_frequencies = frequencies(rotary, rotary.divisors.as_ref(), small)?;
    let long = match &rotary.long {
        Some((beyond, divisors)) => Some(LongRope {
            beyond: *beyond,
            inverse_frequencies: frequencies(rotary, Some(divisors), small)?,
        }),
        None => None,
    };
    let stretch = match rotary.scaling {
        RopeScaling::Yarn { factor, log_multiplier, .. } => {
            let stretch = |by: f64| 1.0 + 0.1 * by * libm::log(f64::from(factor));
            stretch(1.0) / stretch(f64::from(log_multiplier))
        }
        RopeScaling::None | RopeScaling::Linear { .. } => 1.0,
    };
    let magnitude = f64::from(rotary.attention_factor) * stretch;
    let RotarySpec { pairing, query_factor, .. } = *rotary;
    Ok(RopeSpec { inverse_frequencies, long, magnitude, pairing, query_factor })
}

/// Radians per position of each pair.
fn frequencies(
    rotary: &RotarySpec,
    divisors: Option<&VectorPart>,
    small: &BTreeMap<String, Vec<f32>>,
) -> Result<Vec<f64>, ArchError> {
    let (dimensions, base) = (f64::from(rotary.dimensions), f64::from(rotary.base));
    let divisors = match divisors {
        Some(part) => Some(checked_divisors(part, small)?),
        None => None,
    };
    let frequency = |pair: u32| {
        let trained = libm::pow(base, -2.0 * f64::from(pair) / dimensions);
        let divisor = divisors.and_then(|list| list.get(pair as usize)).map_or(1.0, |d| f64::from(*d));
        scale(trained / divisor, f64::from(pair), rotary)
    };
    Ok((0..rotary.dimensions / 2).map(frequency).collect())
}

fn checked_divisors<'a>(
    part: &VectorPart,
    small: &'a BTreeMap<String, Vec<f32>>,
) -> Result<&'a [f32], ArchError> {
    let tensor = part.tensor.clone().unwrap_or_default();
    let Some(values) = small.get(&tensor) else { return Err(ArchError::SmallTensorUnread { tensor }) };
    if values.len() as u64 != u64::from(part.len) {
        let (wanted, found) = (format!("{} values", part.len), values.len().to_string());
        return Err(ArchError::SmallTensorValues { tensor, wanted, found });
    }
    match values.iter().find(|value| !(value.is_finite() && **value > 0.0)) {
        None => Ok(values),
        Some(value) => {
            let (wanted, found) = ("positive finite divisors".to_owned(), value.to_string());
            Err(ArchError::SmallTensorValues { tensor, wanted, found })
        }
    }
}

/// Applies the scaling rule to the frequency of one pair.
fn scale(frequency: f64, pair: f64, rotary: &RotarySpec) -> f64 {
    match rotary.scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / f64::from(factor),
        RopeScaling::Yarn { factor, original_context_len, beta_fast, beta_slow, .. } => {
            let dimensions = f64::from(rotary.dimensions);
            // The (fractional) pair that makes `rotations` turns within the original context.
            let pair_of = |rotations: f32| {
                let turns = f64::from(original_context_len) / (f64::from(rotations) * std::f64::consts::TAU);
                dimensions * libm::log(turns) / (2.0 * libm::log(f64::from(rotary.base)))
            };
            let low = libm::floor(pair_of(beta_fast)).max(0.0);
            let high = libm::ceil(pair_of(beta_slow)).min(dimensions - 1.0);
            let ramp = ((pair - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            let divided = frequency / f64::from(factor);
            divided * ramp + frequency * (1.0 - ramp)
        }
    }
}
