//! Why a plan or an allocation is refused.

use fanlight_messages::plan::BufferOwner;

/// A `Program` that cannot be laid out as requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The context is empty or longer than the engine or the file serve.
    #[error(
        "context of {wanted} positions asked for, this model serves 1 to {max}: ask for one in that range"
    )]
    Context {
        /// Positions asked for.
        wanted: u32,
        /// The smaller of the engine's and the file's longest context.
        max: u32,
    },
    /// The prompt batch is empty or too long.
    #[error("prompt batch of {wanted} tokens asked for, 1 to {max} are possible")]
    Batch {
        /// Tokens asked for.
        wanted: u32,
        /// Most tokens per batch.
        max: u32,
    },
    /// A q8 cache for a GPU.
    #[error("a q8 key/value cache was wanted on a GPU, which has f16 and f32: use --kv f16, or --device cpu")]
    Q8OnGpu,
    /// No row of logits was asked for, or more than a batch holds.
    #[error("{wanted} rows of logits asked for, 1 to {max} are possible")]
    LogitsRows {
        /// Rows asked for.
        wanted: u32,
        /// Rows of a batch.
        max: u32,
    },
    /// Something that cannot be split any further is larger than the adapter binds at once.
    #[error(
        "{what} needs {wanted_bytes} bytes in one binding, the adapter binds {binding_bytes_max}: {advice}"
    )]
    Binding {
        /// What is too large, for people.
        what: String,
        /// Its size.
        wanted_bytes: u64,
        /// The limit.
        binding_bytes_max: u64,
        /// What to do.
        advice: &'static str,
    },
    /// The budget does not hold what a pass needs even when every weight streams.
    #[error(
        "{} bytes are missing: the model needs {wanted_bytes} at least, {budget_bytes} are allowed; raise \
         the budget, shorten the context, or choose smaller pages or batches",
        wanted_bytes - budget_bytes
    )]
    Budget {
        /// The least that is needed.
        wanted_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// One row in file format is larger than an upload may carry.
    #[error("a row of {matrix} is {row_bytes} bytes in the file, an upload carries {upload_bytes_max}")]
    Row {
        /// Which matrix.
        matrix: String,
        /// Its row.
        row_bytes: u64,
        /// The limit.
        upload_bytes_max: u64,
    },
    /// More pages than any real file has.
    #[error("{matrix} would need more than {pages_max} pages: the header is broken")]
    Pages {
        /// The matrix at which the count overflowed.
        matrix: String,
        /// The limit.
        pages_max: u64,
    },
    /// The program breaks a rule of its own form.
    #[error("malformed program: {0}")]
    Program(String),
}

/// A change that the ledger refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The budget would be exceeded.
    #[error(
        "{owner:?} needs {wanted_bytes} bytes, {used_bytes} of a budget of {budget_bytes} are in use: \
         choose a smaller model or context, or raise the budget"
    )]
    OverBudget {
        /// For what.
        owner: BufferOwner,
        /// Bytes it needs.
        wanted_bytes: u64,
        /// Bytes in use.
        used_bytes: u64,
        /// The budget.
        budget_bytes: u64,
    },
    /// The owner holds bytes already.
    #[error("{owner:?} already holds {held_bytes} bytes: release them before entering it again")]
    Entered {
        /// Who.
        owner: BufferOwner,
        /// What it holds.
        held_bytes: u64,
    },
    /// The owner holds nothing.
    #[error("{owner:?} holds nothing that could be released")]
    NotEntered {
        /// Who.
        owner: BufferOwner,
    },
}
