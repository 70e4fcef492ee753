//! Headers of decoders at given shapes, for tests.
#![allow(dead_code, reason = "every test file uses a part of it")]

use fanlight_models::arch::{ArchError, SmallTensors, model_spec, program};
use fanlight_models::gguf::ModelFile;
use fanlight_models::spec::ModelSpec;

use super::gguf_writer::{GgufWriter, read_sparse};

pub const F32: u32 = 0;
pub const F16: u32 = 1;
pub const Q4_0: u32 = 2;
pub const Q4_1: u32 = 3;
pub const Q5_0: u32 = 6;
pub const Q8_0: u32 = 8;
pub const Q4_K: u32 = 12;
pub const Q6_K: u32 = 14;

/// Shape of a decoder.
#[derive(Clone)]
pub struct Decoder {
    pub arch: &'static str,
    pub layers: u64,
    pub width: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_len: u64,
    pub feed_forward: u64,
    pub vocabulary: u64,
    pub context: u32,
    pub freq_base: f32,
    pub epsilon: f32,
    pub tied: bool,
    pub qkv_bias: bool,
    pub head_norms: bool,
    pub pre_norms: bool,
    pub post_norms: bool,
    /// Writes `attention.key_length` and `attention.value_length`.
    pub key_length: bool,
    /// Type of a matrix by layer (0 outside the layers) and short name.
    pub type_of: fn(u64, &str) -> u32,
}

/// The smallest model: two layers of 64.
pub fn tiny(arch: &'static str) -> Decoder {
    Decoder {
        arch,
        layers: 2,
        width: 64,
        heads: 4,
        kv_heads: 2,
        head_len: 16,
        feed_forward: 96,
        vocabulary: 16,
        context: 128,
        freq_base: 10_000.0,
        epsilon: 1e-5,
        tied: false,
        qkv_bias: arch == "qwen2" || arch == "qwen2vl",
        head_norms: ["qwen3", "qwen3vl", "gemma3", "olmo2", "exaone4"].contains(&arch),
        pre_norms: arch != "olmo2" && arch != "exaone4",
        post_norms: ["gemma2", "gemma3", "olmo2", "exaone4"].contains(&arch),
        key_length: false,
        type_of: |_, _| Q8_0,
    }
}

impl Decoder {
    pub fn writer(&self) -> GgufWriter {
        let mut w = GgufWriter::default();
        let key = |name: &str| format!("{}.{name}", self.arch);
        w.set_str("general.architecture", self.arch);
        w.set_u32(&key("context_length"), self.context);
        w.set_u32(&key("embedding_length"), self.width as u32);
        w.set_u32(&key("block_count"), self.layers as u32);
        w.set_u32(&key("feed_forward_length"), self.feed_forward as u32);
        w.set_u32(&key("attention.head_count"), self.heads as u32);
        w.set_u32(&key("attention.head_count_kv"), self.kv_heads as u32);
        w.set_f32(&key("attention.layer_norm_rms_epsilon"), self.epsilon);
        w.set_f32(&key("rope.freq_base"), self.freq_base);
        if self.key_length {
            w.set_u32(&key("attention.key_length"), self.head_len as u32);
            w.set_u32(&key("attention.value_length"), self.head_len as u32);
        }
        w.tensor("token_embd.weight", &[self.width, self.vocabulary], (self.type_of)(0, "token_embd"));
        if !self.tied {
            w.tensor("output.weight", &[self.width, self.vocabulary], (self.type_of)(0, "output"));
        }
        w.tensor("output_norm.weight", &[self.width], F32);
        for layer in 0..self.layers {
            self.write_layer(&mut w, layer);
        }
        w
    }

    fn write_layer(&self, w: &mut GgufWriter, layer: u64) {
        let (query, kv) = (self.heads * self.head_len, self.kv_heads * self.head_len);
        let (fused, apart) = (self.arch == "phi3", self.arch != "phi3");
        // Norms of whole rows, or of heads.
        let norms = |len| if ["olmo2", "olmo3"].contains(&self.arch) { len } else { self.head_len };
        let matrices = [
            ("attn_qkv", self.width, query + 2 * kv, fused),
            ("attn_q", self.width, query, apart),
            ("attn_k", self.width, kv, apart),
            ("attn_v", self.width, kv, apart),
            ("attn_output", query, self.width, true),
            ("ffn_gate", self.width, self.feed_forward, apart),
            ("ffn_up", self.width, self.feed_forward, apart),
            ("ffn_up", self.width, 2 * self.feed_forward, fused),
            ("ffn_down", self.feed_forward, self.width, true),
        ];
        for (name, columns, rows, _) in matrices.into_iter().filter(|matrix| matrix.3) {
            w.tensor(&format!("blk.{layer}.{name}.weight"), &[columns, rows], (self.type_of)(layer, name));
        }
        let vectors = [
            ("attn_norm.weight", self.width, self.pre_norms),
            ("ffn_norm.weight", self.width, self.pre_norms),
            ("attn_q.bias", query, self.qkv_bias),
            ("attn_k.bias", kv, self.qkv_bias),
            ("attn_v.bias", kv, self.qkv_bias),
            ("attn_q_norm.weight", norms(query), self.head_norms),
            ("attn_k_norm.weight", norms(kv), self.head_norms),
            ("post_attention_norm.weight", self.width, self.post_norms),
            ("post_ffw_norm.weight", self.width, self.post_norms),
        ];
        for (name, len, _) in vectors.into_iter().filter(|(_, _, present)| *present) {
            w.tensor(&format!("blk.{layer}.{name}"), &[len], F32);
        }
    }
}

/// The model of one written file; its header has to be good.
pub fn model_of(writer: &GgufWriter) -> ModelFile {
    let header = read_sparse(&writer.header_bytes(), writer.file_bytes()).expect("a good header");
    ModelFile::from_shards(vec![("t.gguf".to_owned(), header)]).expect("a whole model")
}

pub fn spec_of(writer: &GgufWriter) -> Result<ModelSpec, ArchError> {
    model_spec(&model_of(writer))
}

/// The program of a model without small tensors.
pub fn program_of(writer: &GgufWriter) -> fanlight_messages::program::Program {
    let spec = spec_of(writer).expect("a good model");
    program(&spec, &SmallTensors::new()).expect("a program")
}
