//! Floats of small tensors.

use fanlight_messages::TensorType;

/// The values of an F32, F16 or BF16 tensor from its bytes in the file; `None` for other types and for
/// lengths that are not whole elements.
pub fn decode_floats(tensor_type: TensorType, bytes: &[u8]) -> Option<Vec<f32>> {
    fn each<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f32) -> Option<Vec<f32>> {
        let (chunks, rest) = bytes.as_chunks::<N>();
        rest.is_empty().then(|| chunks.iter().map(|chunk| decode(*chunk)).collect())
    }
    match tensor_type {
        TensorType::F32 => each(bytes, f32::from_le_bytes),
        TensorType::F16 => each(bytes, |chunk| half::f16::from_le_bytes(chunk).to_f32()),
        TensorType::Bf16 => each(bytes, |chunk| half::bf16::from_le_bytes(chunk).to_f32()),
        _ => None,
    }
}
