//! Repack: every file type bit for bit against its twin, and the twin against decodings by the formats'
//! authors.

use fanlight_messages::TensorType;
use fanlight_messages::layout::SlabLayout;

use super::twin::{self, Planes};
use super::{Bindings, Params, Variant};
use crate::kernels::testing::file::{half_offsets, landing_words, random_weights};
use crate::kernels::testing::{Place, SENTINEL, Wanted, block_on, lab};
use crate::lab::{Lab, Noise};

/// A row of 256 weights made by [`known_row`], decoded by the reference package of the format's authors
/// (`gguf` 0.19.0, `gguf.quants.dequantize`): weights 0, 17, 100 and 255, and the product with `(29·e mod
/// 255) - 127`.
const KNOWN: [(TensorType, [f64; 4], f64); 14] = [
    (
        TensorType::Q4_0,
        [-0.00412750244140625, 0.0, -4.0650367736816406e-05, -0.12017822265625],
        -34.03570705652237,
    ),
    (
        TensorType::Q4_1,
        [0.0010433197021484375, 0.0010433197021484375, -0.005020320415496826, 0.0796966552734375],
        3.5794759392738342,
    ),
    (
        TensorType::Q5_0,
        [0.04540252685546875, -0.0247650146484375, -8.130073547363281e-05, -0.060089111328125],
        -62.19325542449951,
    ),
    (
        TensorType::Q5_1,
        [0.06295585632324219, 0.07533836364746094, -0.004573166370391846, 0.27498626708984375],
        -71.72350615262985,
    ),
    (
        TensorType::Q8_0,
        [-0.23526763916015625, -0.0577850341796875, -0.0004878044128417969, 0.7661361694335938],
        -345.29950416088104,
    ),
    (
        TensorType::Iq4Nl,
        [-0.0412750244140625, 0.00412750244140625, -0.00044715404510498047, -1.9078292846679688],
        -519.0309446454048,
    ),
    (
        TensorType::Q2K,
        [0.1702251434326172, 0.016510009765625, 0.13089942932128906, 0.05247688293457031],
        -41.34089279174805,
    ),
    (
        TensorType::Q3K,
        [-0.12795257568359375, 0.16510009765625, -0.511810302734375, 0.132080078125],
        122.46712493896484,
    ),
    (
        TensorType::Q4K,
        [0.35854339599609375, 1.1303863525390625, 1.2509441375732422, 0.13878822326660156],
        -135.70977783203125,
    ),
    (
        TensorType::Q5K,
        [2.3232345581054688, 0.8497161865234375, 0.7226238250732422, 4.183740615844727],
        295.41197967529297,
    ),
    (
        TensorType::Q6K,
        [-0.06191253662109375, 5.3492431640625, -0.38385772705078125, 9.588188171386719],
        4670.892265319824,
    ),
    (TensorType::Bf16, [0.1845703125, 0.0179443359375, -0.044921875, 0.056640625], -2752.9532470703125),
    (
        TensorType::F16,
        [3.415346145629883e-05, 0.0022335052490234375, -1.3046875, 0.08447265625],
        162.8152186870575,
    ),
    (
        TensorType::F32,
        [-0.02429305948317051, 0.014873244799673557, -0.3710342347621918, -0.041110627353191376],
        -184.211166607216,
    ),
];

/// The known answers, for the kernels that read weights: the row's bytes, the input and the product.
pub(in crate::kernels) fn known_products() -> impl Iterator<Item = (TensorType, Vec<u8>, [i8; 256], f64)> {
    let input = std::array::from_fn(|e| ((e as i32 * 29) % 255 - 127) as i8);
    KNOWN
        .into_iter()
        .map(move |(tensor_type, _, product)| (tensor_type, known_row(tensor_type), input, product))
}

/// Bytes that look random, with scales of either sign, the fourth block's first one subnormal.
fn known_row(tensor_type: TensorType) -> Vec<u8> {
    let (size, count) = (tensor_type.block_bytes() as usize, 256 / tensor_type.block_len() as usize);
    let mut bytes: Vec<u8> = (0..size * count).map(|i| (i * 197 + 61 + (i >> 3) * 11) as u8).collect();
    for (b, block) in bytes.chunks_exact_mut(size).enumerate() {
        for ((first, step), offset) in
            [(0x1C3A, 0x0111), (0x9A51, 0x0101)].into_iter().zip(half_offsets(tensor_type))
        {
            let bits = if b == 3 && first == 0x1C3A { 0x0155 } else { (first + b * step) as u16 };
            block[*offset..offset + 2].copy_from_slice(&bits.to_le_bytes());
        }
        // Plain floats get small exponents: random ones would hold infinities.
        match tensor_type {
            TensorType::Bf16 | TensorType::F32 => block[size - 1] = 0x3c | (block[size - 1] & 0x83),
            TensorType::F16 => block[1] &= 0xbf,
            _ => (),
        }
    }
    bytes
}

#[test]
fn the_twin_decodes_as_the_formats_authors_do() {
    for (tensor_type, samples, product) in KNOWN {
        let weights = twin::weights(tensor_type, &known_row(tensor_type));
        assert_eq!(weights.len(), 256, "{tensor_type}");
        for (e, sample) in [0, 17, 100, 255].into_iter().zip(samples) {
            // The reference rounds to f32 once per weight at most.
            let error = (weights[e].value - sample).abs();
            assert!(
                error <= weights[e].magnitude * 1e-7,
                "{tensor_type} weight {e}: {sample}, {:?}",
                weights[e]
            );
        }
        let terms = weights.iter().enumerate().map(|(e, w)| (w, ((e * 29) % 255) as f64 - 127.0));
        let (sum, size) =
            terms.fold((0.0, 0.0), |(sum, size), (w, x)| (sum + w.value * x, size + w.magnitude * x.abs()));
        assert!((sum - product).abs() <= size * 1e-7, "{tensor_type}: {product} wanted, {sum} came");
    }
}

/// Where the rows lie: in the landing buffer and in a page that holds others.
struct Case {
    tensor_type: TensorType,
    columns: u32,
    landing_row: usize,
    first_row: usize,
    rows: usize,
    page_rows: usize,
}

/// Runs the kernel over a page of sentinels and gives its planes.
async fn run(lab: &Lab, case: &Case, bytes: &[u8], wanted: &Planes) -> Planes {
    let layout = SlabLayout::for_columns(case.columns);
    let row_bytes = case.tensor_type.row_bytes(u64::from(case.columns)).expect("whole blocks") as u32;
    let landing = lab.words(&landing_words(bytes)).await.expect("a buffer");
    let planes = wanted.filled(SENTINEL).upload(lab).await;
    let bindings = Bindings { landing: landing.slice(), page: planes.bindings() };
    let params = Params {
        rows: case.rows as u32,
        landing_row: case.landing_row as u32,
        first_row: case.first_row as u32,
        row_bytes,
        blocks: layout.blocks,
    };
    let variant = Variant { tensor_type: case.tensor_type, layout };
    lab.run(variant, &bindings, params, variant.groups(case.rows as u64)).await.expect("a run");
    wanted.read(lab, &planes).await
}

async fn check(lab: &Lab, case: Case) {
    let mut noise = Noise::new(u64::from(case.tensor_type.ggml_id()) << 20 | u64::from(case.columns));
    let landed = case.landing_row + case.rows;
    let bytes = random_weights(case.tensor_type, landed * case.columns as usize, &mut noise);
    let row_bytes = bytes.len() / landed;
    // The page with zero rows around the new ones, of which only the new ones are written.
    let mut page = vec![0; case.page_rows * row_bytes];
    page[case.first_row * row_bytes..][..case.rows * row_bytes]
        .copy_from_slice(&bytes[case.landing_row * row_bytes..]);
    let wanted = twin::repack(case.tensor_type, &page, case.page_rows, case.columns);
    let got = run(lab, &case, &bytes, &wanted).await;
    let name = format!("{} {} columns", case.tensor_type, case.columns);
    for ((what, wanted), (_, got)) in wanted.named().into_iter().zip(got.named()) {
        let row_len = (wanted.len() / case.page_rows).max(1);
        let wanted: Vec<Wanted> = wanted
            .iter()
            .enumerate()
            .map(|(at, word)| {
                let is_new = (case.first_row..case.first_row + case.rows).contains(&(at / row_len));
                if is_new { Wanted::Bits(*word) } else { Wanted::Untouched }
            })
            .collect();
        Place { kernel: "repack", case: &name, what, row_len }.assert(&wanted, got);
    }
}

/// Rows in the middle of a landing buffer (their bytes at odd offsets) into the middle of a page.
#[test]
fn every_type_is_repacked_bit_for_bit() {
    let lab = &lab();
    for tensor_type in TensorType::ALL {
        let columns = if tensor_type.block_len() == 256 { 512 } else { 288 };
        let case = Case { tensor_type, columns, landing_row: 3, first_row: 1, rows: 5, page_rows: 8 };
        block_on(check(lab, case));
    }
}

/// 67 blocks leave one of padding behind 34 slabs of two; it must hold zero codes and zero scales.
#[test]
fn padding_blocks_are_zero() {
    let lab = &lab();
    for tensor_type in [TensorType::Q4_0, TensorType::Q5_1, TensorType::Q8_0, TensorType::F16] {
        let case = Case { tensor_type, columns: 2144, landing_row: 0, first_row: 0, rows: 3, page_rows: 3 };
        block_on(check(lab, case));
    }
}

/// 17,152 columns are 536 blocks, which 49 slabs of eleven would hold with the least padding; but 539 stored
/// blocks are an odd number, and the 16-bit scales of neighbouring rows would share a word.
#[test]
fn superblock_types_with_padded_rows_are_repacked() {
    let lab = &lab();
    for tensor_type in [TensorType::Q2K, TensorType::Q3K, TensorType::Q4K, TensorType::Q5K, TensorType::Q6K] {
        let case = Case { tensor_type, columns: 17_152, landing_row: 0, first_row: 0, rows: 3, page_rows: 3 };
        block_on(check(lab, case));
    }
}
