//! Looks tensors up by name, checks their shapes against the hyper-parameters and keeps account of what is
//! used.

use std::collections::BTreeSet;

use fanlight_messages::layout::BLOCK_LEN;
use fanlight_messages::program::VectorPart;

use super::error::ArchError;
use crate::gguf::{ModelFile, TensorInfo};
use crate::spec::Weight;

/// First name components of tensors outside the layers that belong to a text model. Other components (`v`,
/// `mm`, `a`, `mtp` …) belong to siblings bundled into the file: they are neither read nor counted.
const TEXT_COMPONENTS: [&str; 12] = [
    "token_embd",
    "token_embd_norm",
    "token_types",
    "position_embd",
    "output",
    "output_norm",
    "rope_freqs",
    "rope_factors_long",
    "rope_factors_short",
    "per_layer_token_embd",
    "altup_proj",
    "dec",
];

/// Where a tensor stands in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the layer of this number.
    Layer(u32),
    /// Outside the layers.
    Text,
    /// In another model of the same file.
    Sibling,
}

/// Sorts a tensor name.
pub(super) fn place_of(name: &str) -> Place {
    if let Some(rest) = name.strip_prefix("blk.") {
        let number = rest.split_once('.').and_then(|(number, _)| number.parse().ok());
        return number.map_or(Place::Text, Place::Layer);
    }
    let component = name.split('.').next().unwrap_or(name);
    if TEXT_COMPONENTS.contains(&component) { Place::Text } else { Place::Sibling }
}

/// Blocks that are run. Of the last `predicted` ones, which the metadata says predict further tokens, those
/// do that have tensors for it or that the file has left out.
pub(super) fn trunk_layers(model: &ModelFile, block_count: u32, predicted: u32) -> u32 {
    let (mut present, mut predicting) = (BTreeSet::new(), BTreeSet::new());
    for tensor in model.tensors() {
        let name = &tensor.info.name;
        if let Place::Layer(layer) = place_of(name) {
            present.insert(layer);
            if name.split('.').nth(2) == Some("nextn") {
                predicting.insert(layer);
            }
        }
    }
    let is_trunk = |layer: &u32| present.contains(layer) && !predicting.contains(layer);
    let counted = block_count.saturating_sub(predicted);
    counted + (counted..block_count).take_while(is_trunk).count() as u32
}

/// The tensors of a model, with an account of those used.
pub(super) struct TensorSource<'a> {
    model: &'a ModelFile,
    used: BTreeSet<&'a str>,
}

impl<'a> TensorSource<'a> {
    pub(super) fn new(model: &'a ModelFile) -> Self {
        Self { model, used: BTreeSet::new() }
    }

    fn find(&mut self, name: &str) -> Option<&'a TensorInfo> {
        let info = &self.model.tensor(name)?.info;
        self.used.insert(&info.name);
        Some(info)
    }

    /// Length of the embedding table in rows, from the file.
    pub(super) fn rows_of(&self, name: &str) -> Result<u64, ArchError> {
        let tensor = self.model.tensor(name).ok_or_else(|| missing(name))?;
        Ok(tensor.info.dims.get(1).copied().unwrap_or(1))
    }

    /// Whether the file has a tensor of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.model.tensor(name).is_some()
    }

    /// A matrix of `rows` rows of `columns` weights.
    pub(super) fn weight(&mut self, name: String, columns: u32, rows: u32) -> Result<Weight, ArchError> {
        let [weight] = self.slices(name, columns, [rows])?;
        Ok(weight)
    }

    /// Matrices of `columns` weights a row that one tensor holds one after the other.
    pub(super) fn slices<const N: usize>(
        &mut self,
        name: String,
        columns: u32,
        rows: [u32; N],
    ) -> Result<[Weight; N], ArchError> {
        let info = self.find(&name).ok_or_else(|| missing(&name))?;
        check_shape(info, &[columns.into(), rows.iter().map(|rows| u64::from(*rows)).sum()])?;
        if !columns.is_multiple_of(BLOCK_LEN) {
            return Err(ArchError::Columns { tensor: name, columns });
        }
        let mut first_row = 0;
        Ok(rows.map(|rows| {
            let tensor_type = info.tensor_type;
            let weight = Weight { tensor: name.clone(), tensor_type, first_row, rows, columns };
            first_row += rows;
            weight
        }))
    }

    /// A matrix that may be absent.
    pub(super) fn optional_weight(
        &mut self,
        name: &str,
        columns: u32,
        rows: u32,
    ) -> Result<Option<Weight>, ArchError> {
        match self.model.tensor(name) {
            Some(_) => self.weight(name.to_owned(), columns, rows).map(Some),
            None => Ok(None),
        }
    }

    /// A vector of `len` floats.
    pub(super) fn vector(&mut self, name: String, len: u32) -> Result<VectorPart, ArchError> {
        let info = self.find(&name).ok_or_else(|| missing(&name))?;
        check_shape(info, &[len.into()])?;
        if !info.tensor_type.is_float() {
            return Err(ArchError::VectorType { tensor: name, tensor_type: info.tensor_type });
        }
        Ok(VectorPart { tensor: Some(name), len })
    }

    /// A vector that may be absent.
    pub(super) fn optional_vector(
        &mut self,
        name: String,
        len: u32,
    ) -> Result<Option<VectorPart>, ArchError> {
        match self.model.tensor(&name) {
            Some(_) => self.vector(name, len).map(Some),
            None => Ok(None),
        }
    }

    /// Refuses tensors of the text model that nothing has used. Layers from `trunk_layers` up to
    /// `block_count` hold prediction blocks, which the trunk's output does not depend on.
    pub(super) fn check_all_used(
        &self,
        architecture: &'static str,
        trunk_layers: u32,
        block_count: u32,
    ) -> Result<(), ArchError> {
        for tensor in self.model.tensors() {
            let name = &tensor.info.name;
            let place = place_of(name);
            if self.used.contains(name.as_str()) || place == Place::Sibling {
                continue;
            }
            match place {
                Place::Layer(layer) if layer >= block_count => {
                    return Err(ArchError::BeyondLayers {
                        tensor: name.clone(),
                        key: format!("{architecture}.block_count"),
                        layers: block_count,
                    });
                }
                Place::Layer(layer) if layer >= trunk_layers => {}
                _ => return Err(ArchError::UnusedTensor { tensor: name.clone(), architecture }),
            }
        }
        Ok(())
    }
}

fn missing(name: &str) -> ArchError {
    ArchError::MissingTensor { tensor: name.to_owned() }
}

/// Compares shapes; trailing dimensions of 1 do not count.
fn check_shape(info: &TensorInfo, wanted: &[u64]) -> Result<(), ArchError> {
    let places = info.dims.len().max(wanted.len());
    let dim = |dims: &[u64], place: usize| dims.get(place).copied().unwrap_or(1);
    if (0..places).all(|place| dim(&info.dims, place) == dim(wanted, place)) {
        return Ok(());
    }
    Err(ArchError::Shape { tensor: info.name.clone(), found: info.dims.clone(), wanted: wanted.to_vec() })
}
