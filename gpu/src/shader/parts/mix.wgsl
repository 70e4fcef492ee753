// mix(index, bits): a bijective scrambler of the xor-shift-multiply family.
fn mix(index: u32, bits: u32) -> u32 {
  var h = bits ^ (index * 0x9E3779B9u);
  h = (h ^ (h >> 16u)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13u)) * 0xC2B2AE35u;
  return h ^ (h >> 16u);
}
