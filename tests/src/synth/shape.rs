//! Shapes of models: the published ones by name.

use super::vocabulary::VocabularyKind;

/// Which metadata keys, tensors and rules a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// llama, SmolLM: adjacent rope pairs.
    Llama,
    /// Qwen2 and 2.5: biases on q, k, v.
    Qwen2,
    /// Qwen3: per-head norms of q and k.
    Qwen3,
    /// Gemma 3: windows, norms after each block, GELU.
    Gemma3,
    /// Qwen 2 VL's text part.
    Qwen2Vl,
    /// Qwen 3 VL's text part.
    Qwen3Vl,
    /// Gemma: GELU, no norms after the blocks.
    Gemma,
    /// Gemma 2: windows in every second layer, norms after each block, soft caps.
    Gemma2,
    /// Phi-3 and 4: fused tensors, two sets of divisors, a part of a head rotates.
    Phi3,
    /// SmolLM3: each fourth layer leaves positions out.
    SmolLm3,
    /// Ministral 3: queries grow with their position.
    Mistral3,
    /// Granite: four scales; here with every bias that a llama file may have.
    Granite,
    /// Ernie 4.5.
    Ernie45,
    /// OLMo 2 and 3: norms after the blocks only, norms of q and k over rows, windows.
    Olmo2,
    /// EXAONE 4: norms after the blocks only.
    Exaone4,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Llama,
        Self::Qwen2,
        Self::Qwen3,
        Self::Gemma3,
        Self::Qwen2Vl,
        Self::Qwen3Vl,
        Self::Gemma,
        Self::Gemma2,
        Self::Phi3,
        Self::SmolLm3,
        Self::Mistral3,
        Self::Granite,
        Self::Ernie45,
        Self::Olmo2,
        Self::Exaone4,
    ];

    /// The value of `general.architecture`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
            Self::Qwen2Vl => "qwen2vl",
            Self::Qwen3Vl => "qwen3vl",
            Self::Gemma => "gemma",
            Self::Gemma2 => "gemma2",
            Self::Phi3 => "phi3",
            Self::SmolLm3 => "smollm3",
            Self::Mistral3 => "mistral3",
            Self::Granite => "granite",
            Self::Ernie45 => "ernie4_5",
            Self::Olmo2 => "olmo2",
            Self::Exaone4 => "exaone4",
        }
    }

    /// Gemma's vocabulary and gate.
    pub fn is_gemma(self) -> bool {
        matches!(self, Self::Gemma | Self::Gemma2 | Self::Gemma3)
    }

    /// Queries and keys are normalised.
    pub fn has_head_norms(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Qwen3Vl | Self::Gemma3 | Self::Olmo2 | Self::Exaone4)
    }

    /// The inputs of the blocks are normalised.
    pub fn has_pre_norms(self) -> bool {
        !matches!(self, Self::Olmo2 | Self::Exaone4)
    }

    /// The outputs of the blocks are normalised.
    pub fn has_post_norms(self) -> bool {
        matches!(self, Self::Gemma2 | Self::Gemma3 | Self::Olmo2 | Self::Exaone4)
    }

    /// Queries, keys and values have biases.
    pub fn has_projection_biases(self) -> bool {
        matches!(self, Self::Qwen2 | Self::Qwen2Vl | Self::Granite)
    }
}

/// How positions are stretched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeRule {
    /// As trained.
    Plain,
    /// Every angle divided by the factor.
    Linear(f32),
    /// YaRN.
    Yarn {
        /// Stretch.
        factor: f32,
        /// Training length in tokens.
        original_context: u32,
    },
    /// Two sets of divisors, the second for contexts beyond a length.
    Long {
        /// That length in tokens.
        original_context: u32,
    },
    /// Llama 3's rule, stored as a `rope_freqs` tensor of divisors (for a training length of 8,192 tokens).
    Llama3 {
        /// Stretch of the low frequencies.
        factor: f64,
    },
}

/// Everything about a model but its weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Rules and keys.
    pub architecture: Architecture,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Inner width of the feed-forward.
    pub ffn_len: u32,
    /// Query heads.
    pub query_heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_len: u32,
    /// Of which so many rotate, where that is not all.
    pub rotated_len: Option<u32>,
    /// Longest context.
    pub context_len: u32,
    /// Base of the rope frequencies.
    pub rope_base: f32,
    /// Their scaling.
    pub rope_rule: RopeRule,
    /// Positions that gemma's local layers see.
    pub window: Option<u32>,
    /// True when the head is the embedding table.
    pub is_tied: bool,
    /// Which tokens.
    pub vocabulary: VocabularyKind,
}

/// Names that [`Shape::published`] knows.
pub const PUBLISHED: [&str; 7] = [
    "smollm2-135m",
    "qwen2.5-0.5b",
    "qwen2.5-1.5b",
    "qwen3-0.6b",
    "llama-3.2-1b",
    "llama-3.1-8b",
    "gemma3-27b",
];

impl Shape {
    /// The shape of a published model.
    pub fn published(name: &str) -> Option<Self> {
        use Architecture::{Gemma3, Llama, Qwen2, Qwen3};
        // layers, width, ffn, query heads, kv heads, head length
        let shape = |architecture, s: [u32; 6], vocabulary| Self {
            architecture,
            layers: s[0],
            width: s[1],
            ffn_len: s[2],
            query_heads: s[3],
            kv_heads: s[4],
            head_len: s[5],
            rotated_len: None,
            context_len: 32_768,
            rope_base: 1_000_000.0,
            rope_rule: RopeRule::Plain,
            window: None,
            is_tied: true,
            vocabulary,
        };
        let llama = |s, factor, is_tied| Self {
            context_len: 131_072,
            rope_base: 500_000.0,
            rope_rule: RopeRule::Llama3 { factor },
            is_tied,
            ..shape(Llama, s, VocabularyKind::Llama3)
        };
        let smollm = shape(Llama, [30, 576, 1536, 9, 3, 64], VocabularyKind::SmolLm);
        let gemma = shape(Gemma3, [62, 5376, 21_504, 32, 16, 128], VocabularyKind::Gemma);
        Some(match name {
            "smollm2-135m" => Self { context_len: 8192, rope_base: 100_000.0, ..smollm },
            "qwen2.5-0.5b" => shape(Qwen2, [24, 896, 4864, 14, 2, 64], VocabularyKind::Qwen),
            "qwen2.5-1.5b" => shape(Qwen2, [28, 1536, 8960, 12, 2, 128], VocabularyKind::Qwen),
            "qwen3-0.6b" => shape(Qwen3, [28, 1024, 3072, 16, 8, 128], VocabularyKind::Qwen),
            "llama-3.2-1b" => llama([16, 2048, 8192, 32, 8, 64], 32.0, true),
            "llama-3.1-8b" => llama([32, 4096, 14_336, 32, 8, 128], 8.0, false),
            "gemma3-27b" => {
                Self { context_len: 131_072, rope_rule: RopeRule::Linear(8.0), window: Some(1024), ..gemma }
            }
            _ => return None,
        })
    }
}
