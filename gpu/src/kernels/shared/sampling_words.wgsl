// Words of the sampling buffer, as messages/src/sampling.rs draws it.
const SEED = 0u;
const RATE = 2u;
const SCALE = 3u;
const MIN_EXPONENT = 4u;
const TOP_P = 5u;
const TOP_K = 6u;
const REPEAT_PENALTY = 7u;
const REPEAT_WINDOW = 8u;
const FREQUENCY_PENALTY = 9u;
const PRESENCE_PENALTY = 10u;
const GENERATED_FROM = 11u;
const BIASES = 12u;
const BIAS_IDS = {{ bias_word }}u;
const BIAS_VALUES = {{ bias_word + biases_max }}u;
