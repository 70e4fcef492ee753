// A block of a quantised activation.
struct Input { low: vec4<u32>, high: vec4<u32>, dx: f32, sums: u32 };
