// A block of a float activation.
struct Input { v: array<vec4<f32>, 8> };
