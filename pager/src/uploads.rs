//! Which bytes of which file go where, in the order of the files: the way of the weights to the device.

use fanlight_messages::TensorType;
use fanlight_messages::limits::{LANDING_BYTES, UPLOAD_BYTES_MAX};
use fanlight_messages::plan::{BufferOwner, GpuPlan, PageRange};
use fanlight_messages::program::{MatrixId, MatrixPart, MatrixSpec, Program, VectorId};
use fanlight_models::gguf::{ModelFile, ModelTensor};

use crate::PlanError;

/// Bytes of one file for one place on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Which file.
    pub shard: u32,
    /// First byte in it.
    pub offset: u64,
    /// How many, at most [`UPLOAD_BYTES_MAX`].
    pub bytes: u64,
    /// Where they go.
    pub target: UploadTarget,
}

/// A place on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadTarget {
    /// Whole rows of a matrix, within one page.
    Rows {
        /// Which matrix.
        matrix: MatrixId,
        /// First row.
        first_row: u64,
    },
    /// Elements of a constant vector, to be decoded.
    Elements {
        /// Which vector.
        vector: VectorId,
        /// First element.
        element_offset: u32,
        /// How the file stores them.
        tensor_type: TensorType,
    },
}

/// Every upload that a load makes, of constants and of the pages that stay, sorted by file and offset so that
/// reading is sequential. Parts of a vector that the file lacks stay zero, as the device creates them.
///
/// # Errors
/// When a tensor is missing or has another size than the program says.
pub fn plan_uploads(program: &Program, plan: &GpuPlan, model: &ModelFile) -> Result<Vec<Upload>, PlanError> {
    let cutter = Cutter::new(program, plan, model);
    let mut uploads = Vec::new();
    for page in plan.pages.iter().filter(|page| page.slot.is_none()) {
        cutter.cut(page, &mut uploads)?;
    }
    for (index, vector) in program.vectors.iter().enumerate() {
        let mut element_offset = 0;
        for part in &vector.parts {
            if let Some(name) = &part.tensor {
                let tensor_type =
                    model.tensor(name).map_or(TensorType::F32, |tensor| tensor.info.tensor_type);
                let tensor = find(model, name, tensor_type)?;
                check_bytes(tensor, tensor_type.row_bytes(u64::from(part.len)))?;
                let vector = VectorId(index as u32);
                let target = UploadTarget::Elements { vector, element_offset, tensor_type };
                let (offset, bytes) = (tensor.info.offset, tensor.info.bytes);
                uploads.push(Upload { shard: tensor.shard, offset, bytes, target });
            }
            element_offset += part.len;
        }
    }
    if let Some(large) = uploads.iter().find(|upload| upload.bytes > cutter.upload_bytes_max) {
        return Err(PlanError::Program(format!("{:?} needs {} bytes at once", large.target, large.bytes)));
    }
    uploads.sort_by_key(|upload| (upload.shard, upload.offset));
    Ok(uploads)
}

/// The uploads of one pass: every page that streams, in the order in which the pass needs them.
///
/// # Errors
/// As [`plan_uploads`].
pub fn plan_pass(program: &Program, plan: &GpuPlan, model: &ModelFile) -> Result<Vec<Upload>, PlanError> {
    let cutter = Cutter::new(program, plan, model);
    let mut uploads = Vec::new();
    let indices = plan.stream.iter().flat_map(|stream| &stream.pages);
    for page in indices.filter_map(|index| plan.pages.get(*index as usize)) {
        cutter.cut(page, &mut uploads)?;
    }
    Ok(uploads)
}

/// Where the rows of a matrix lie in the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlaces {
    /// Bytes of a row.
    pub row_bytes: u64,
    /// First row, file and offset of each part, and its rows.
    parts: Vec<(u64, u32, u64, u64)>,
}

impl RowPlaces {
    /// Of a matrix of a program.
    ///
    /// # Errors
    /// As [`plan_uploads`].
    pub fn new(program: &Program, matrix: MatrixId, model: &ModelFile) -> Result<Self, PlanError> {
        let spec = &program.matrices[matrix.index()];
        let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).unwrap_or(0);
        let (mut first_row, mut parts) = (0, Vec::new());
        for part in &spec.parts {
            let (shard, offset) = place_of(model, spec, part)?;
            parts.push((first_row, shard, offset, part.rows));
            first_row += part.rows;
        }
        Ok(Self { row_bytes, parts })
    }

    /// File and offset of a row; `None` when there is no such row.
    pub fn of(&self, row: u64) -> Option<(u32, u64)> {
        let holds = |(first, _, _, rows): &&(u64, u32, u64, u64)| (*first..*first + *rows).contains(&row);
        let (first, shard, offset, _) = self.parts.iter().find(holds)?;
        Some((*shard, offset + (row - first) * self.row_bytes))
    }
}

/// A tensor of the expected format.
fn find<'a>(model: &'a ModelFile, name: &str, tensor_type: TensorType) -> Result<&'a ModelTensor, PlanError> {
    let tensor = model
        .tensor(name)
        .ok_or_else(|| PlanError::Program(format!("tensor {name} is wanted and the file has none")))?;
    if tensor.info.tensor_type != tensor_type {
        return Err(PlanError::Program(format!(
            "tensor {name} is {}, {tensor_type} is wanted",
            tensor.info.tensor_type
        )));
    }
    Ok(tensor)
}

fn check_bytes(tensor: &ModelTensor, wanted: Option<u64>) -> Result<(), PlanError> {
    let (name, bytes) = (&tensor.info.name, tensor.info.bytes);
    if wanted == Some(bytes) {
        return Ok(());
    }
    Err(PlanError::Program(format!("tensor {name} has {bytes} bytes, {wanted:?} are wanted")))
}

/// File and offset of the first row of a part that the file holds whole.
fn place_of(model: &ModelFile, matrix: &MatrixSpec, part: &MatrixPart) -> Result<(u32, u64), PlanError> {
    let tensor = find(model, &part.tensor, matrix.tensor_type)?;
    let row_bytes = matrix.tensor_type.row_bytes(u64::from(matrix.columns)).unwrap_or(0);
    let end = part.first_row.checked_add(part.rows).and_then(|rows| rows.checked_mul(row_bytes));
    if end.is_some_and(|end| end <= tensor.info.bytes) {
        return Ok((tensor.shard, tensor.info.offset + part.first_row * row_bytes));
    }
    let MatrixPart { tensor: name, first_row, rows } = part;
    Err(PlanError::Program(format!(
        "tensor {name} has {} bytes, rows {first_row} to {} of {row_bytes} bytes are wanted",
        tensor.info.bytes,
        first_row.saturating_add(*rows)
    )))
}

/// Cuts pages into uploads.
struct Cutter<'a> {
    program: &'a Program,
    model: &'a ModelFile,
    upload_bytes_max: u64,
}

impl<'a> Cutter<'a> {
    fn new(program: &'a Program, plan: &GpuPlan, model: &'a ModelFile) -> Self {
        let landing_bytes = plan.bytes_of(BufferOwner::Landing).unwrap_or(LANDING_BYTES);
        let upload_bytes_max = landing_bytes.saturating_sub(LANDING_BYTES - UPLOAD_BYTES_MAX);
        Self { program, model, upload_bytes_max }
    }

    /// The uploads of a page, in row order: none exceeds the landing buffer or crosses a tensor.
    fn cut(&self, page: &PageRange, uploads: &mut Vec<Upload>) -> Result<(), PlanError> {
        let matrix = &self.program.matrices[page.matrix.index()];
        let row_bytes = matrix.tensor_type.row_bytes(u64::from(matrix.columns)).unwrap_or(0);
        let rows_max = (self.upload_bytes_max / row_bytes.max(1)).max(1);
        let mut part_start = 0;
        for part in &matrix.parts {
            let (shard, offset) = place_of(self.model, matrix, part)?;
            let mut first_row = page.first_row.max(part_start);
            let end = (page.first_row + page.rows).min(part_start + part.rows);
            while first_row < end {
                let rows = rows_max.min(end - first_row);
                uploads.push(Upload {
                    shard,
                    offset: offset + (first_row - part_start) * row_bytes,
                    bytes: rows * row_bytes,
                    target: UploadTarget::Rows { matrix: page.matrix, first_row },
                });
                first_row += rows;
            }
            part_start += part.rows;
        }
        Ok(())
    }
}
