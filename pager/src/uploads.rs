//! Which bytes of which file go where, in the order of the files: the way of the weights to the device.

use fanlight_messages::TensorType;
use fanlight_messages::limits::{LANDING_BYTES, UPLOAD_BYTES_MAX};
use fanlight_messages::plan::{BufferOwner, GpuPlan};
use fanlight_messages::program::{MatrixId, Program, VectorId};
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

/// Every upload of a model, sorted by file and offset so that reading is sequential. Parts of a vector that
/// the file lacks stay zero, as the device creates them.
///
/// # Errors
/// When a tensor is missing or has another size than the program says.
pub fn plan_uploads(program: &Program, plan: &GpuPlan, model: &ModelFile) -> Result<Vec<Upload>, PlanError> {
    let mut uploads = Vec::new();
    let landing_bytes = plan.bytes_of(BufferOwner::Landing).unwrap_or(LANDING_BYTES);
    let upload_bytes_max = landing_bytes.saturating_sub(LANDING_BYTES - UPLOAD_BYTES_MAX);
    for (index, matrix) in program.matrices.iter().enumerate() {
        let id = MatrixId(index as u32);
        let row_bytes = matrix.tensor_type.row_bytes(u64::from(matrix.columns)).unwrap_or(0);
        let page_starts = plan.pages.iter().filter(|page| page.matrix == id).map(|page| page.first_row);
        let page_starts: Vec<u64> = page_starts.collect();
        let mut first_row = 0;
        for part in &matrix.parts {
            let wanted = part.rows.checked_mul(row_bytes);
            let tensor = find(model, &part.tensor, matrix.tensor_type, wanted)?;
            let rows_max = (upload_bytes_max / row_bytes.max(1)).max(1);
            let rows = Rows { matrix: id, first_row, rows: part.rows, row_bytes, rows_max };
            cut_rows(rows, &page_starts, tensor, &mut uploads);
            first_row += part.rows;
        }
    }
    for (index, vector) in program.vectors.iter().enumerate() {
        let mut element_offset = 0;
        for part in &vector.parts {
            if let Some(name) = &part.tensor {
                let tensor_type =
                    model.tensor(name).map_or(TensorType::F32, |tensor| tensor.info.tensor_type);
                let tensor = find(model, name, tensor_type, tensor_type.row_bytes(u64::from(part.len)))?;
                let vector = VectorId(index as u32);
                let target = UploadTarget::Elements { vector, element_offset, tensor_type };
                let (offset, bytes) = (tensor.info.offset, tensor.info.bytes);
                uploads.push(Upload { shard: tensor.shard, offset, bytes, target });
            }
            element_offset += part.len;
        }
    }
    if let Some(large) = uploads.iter().find(|upload| upload.bytes > upload_bytes_max) {
        return Err(PlanError::Program(format!("{:?} needs {} bytes at once", large.target, large.bytes)));
    }
    uploads.sort_by_key(|upload| (upload.shard, upload.offset));
    Ok(uploads)
}

/// A tensor of the expected format and size.
fn find<'a>(
    model: &'a ModelFile,
    name: &str,
    tensor_type: TensorType,
    wanted_bytes: Option<u64>,
) -> Result<&'a ModelTensor, PlanError> {
    let tensor = model
        .tensor(name)
        .ok_or_else(|| PlanError::Program(format!("tensor {name} is wanted and the file has none")))?;
    if tensor.info.tensor_type != tensor_type || Some(tensor.info.bytes) != wanted_bytes {
        return Err(PlanError::Program(format!(
            "tensor {name} has {} bytes of {}, {wanted_bytes:?} of {tensor_type} are wanted",
            tensor.info.bytes, tensor.info.tensor_type
        )));
    }
    Ok(tensor)
}

/// Rows that one tensor holds of a matrix.
#[derive(Clone, Copy)]
struct Rows {
    matrix: MatrixId,
    first_row: u64,
    rows: u64,
    row_bytes: u64,
    /// Rows of one upload.
    rows_max: u64,
}

/// Cuts rows so that no piece exceeds the landing buffer or crosses a page.
fn cut_rows(rows: Rows, page_starts: &[u64], tensor: &ModelTensor, uploads: &mut Vec<Upload>) {
    let end = rows.first_row + rows.rows;
    let mut first_row = rows.first_row;
    while first_row < end {
        let next_page = page_starts.get(page_starts.partition_point(|start| *start <= first_row));
        let piece_end = end.min(first_row + rows.rows_max).min(next_page.copied().unwrap_or(end));
        uploads.push(Upload {
            shard: tensor.shard,
            offset: tensor.info.offset + (first_row - rows.first_row) * rows.row_bytes,
            bytes: (piece_end - first_row) * rows.row_bytes,
            target: UploadTarget::Rows { matrix: rows.matrix, first_row },
        });
        first_row = piece_end;
    }
}
