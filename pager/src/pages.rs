//! Cuts matrices into pages: row ranges that each fit one storage binding.

use fanlight_messages::layout::{BLOCK_LEN, PagePlanes, ResidentFormat, SlabLayout};
use fanlight_messages::limits::{PAGES_MAX, UPLOAD_BYTES_MAX};
use fanlight_messages::plan::PageRange;
use fanlight_messages::program::{MatrixId, MatrixSpec};

use crate::PlanError;

/// The pages of all matrices, each of at most `page_bytes_max`, in matrix and row order. The pages of one
/// matrix are of one size, as far as its rows allow.
pub(crate) fn plan_pages(matrices: &[MatrixSpec], page_bytes_max: u64) -> Result<Vec<PageRange>, PlanError> {
    let mut pages = Vec::new();
    for (index, spec) in matrices.iter().enumerate() {
        let matrix = MatrixId(index as u32);
        let page_count = spec.rows.div_ceil(rows_per_page(spec, page_bytes_max)?);
        let page_rows = spec.rows.div_ceil(page_count);
        if page_count > PAGES_MAX - pages.len() as u64 {
            return Err(PlanError::Pages { matrix: spec.name.clone(), pages_max: PAGES_MAX });
        }
        for (page, first_row) in (0u32..).zip((0..spec.rows).step_by(page_rows as usize)) {
            let rows = page_rows.min(spec.rows - first_row);
            pages.push(PageRange { matrix, page, first_row, rows, slot: None });
        }
    }
    Ok(pages)
}

/// Bytes of `rows` rows of a matrix as the device holds them.
pub(crate) fn repacked_bytes(spec: &MatrixSpec, rows: u64) -> u64 {
    PagePlanes::new(ResidentFormat::of(spec.tensor_type), rows, spec.columns).total_bytes
}

/// The most rows whose planes fit one binding.
fn rows_per_page(spec: &MatrixSpec, page_bytes_max: u64) -> Result<u64, PlanError> {
    if spec.rows == 0 || spec.columns == 0 || !spec.columns.is_multiple_of(BLOCK_LEN) {
        return Err(PlanError::Program(format!(
            "matrix {} has {} rows of {} columns; rows must exist and columns be a multiple of {BLOCK_LEN}",
            spec.name, spec.rows, spec.columns
        )));
    }
    check_file_row(spec)?;
    let format = ResidentFormat::of(spec.tensor_type);
    let fits = |rows: u64| PagePlanes::new(format, rows, spec.columns).total_bytes <= page_bytes_max;
    // The code plane alone bounds the count, which also keeps the byte arithmetic far from overflow.
    let row_codes =
        u64::from(SlabLayout::for_columns(spec.columns).padded_blocks()) * format.widths().codes_bytes;
    let (mut fitting, mut beyond) = (0, spec.rows.min(page_bytes_max / row_codes) + 1);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    if fitting == 0 {
        return Err(PlanError::Binding {
            what: format!("a row of matrix {}", spec.name),
            wanted_bytes: PagePlanes::new(format, 1, spec.columns).total_bytes,
            binding_bytes_max: page_bytes_max,
            advice: "use an adapter with larger storage bindings",
        });
    }
    Ok(fitting)
}

/// An upload carries whole rows, so one row must fit the landing buffer.
fn check_file_row(spec: &MatrixSpec) -> Result<(), PlanError> {
    let row_bytes = spec.tensor_type.row_bytes(u64::from(spec.columns)).ok_or_else(|| {
        PlanError::Program(format!(
            "matrix {} has {} columns, {} comes in blocks of {}",
            spec.name,
            spec.columns,
            spec.tensor_type,
            spec.tensor_type.block_len()
        ))
    })?;
    if row_bytes > UPLOAD_BYTES_MAX {
        return Err(PlanError::Row {
            matrix: spec.name.clone(),
            row_bytes,
            upload_bytes_max: UPLOAD_BYTES_MAX,
        });
    }
    Ok(())
}
