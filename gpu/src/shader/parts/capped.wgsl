// cap · tanh(x / cap). Beyond 10 the tangent is 1 in f32; drivers that make it of exponentials overflow there.
fn capped(x: f32, cap: f32) -> f32 {
  return cap * tanh(clamp(x * (1.0 / cap), -10.0, 10.0));
}
