"""Makes models/tests/goldens/pre_tokenizers.json: ids that llama.cpp gives under names of `tokenizer.ggml.pre`, in a
vocabulary made so that each cut shows. Environment as in make_arch.py."""
import ctypes as C, json, os, struct, subprocess, tempfile
from pathlib import Path

os.environ.setdefault("LLAMA_BIN", ".")
from make_arch import L, SYNTH  # noqa: E402  (loads the library)

NAMES = ("olmo a.x-4.0 gigachat granite-docling modern-bert kormo f2llmv2 solar-open kanana2 talkie joyai-llm mellum2 "
         "midm-2.0 minicpm5 seed-coder qwen2 llama-bpe smollm").split()
TEXTS = ["12345 123456 7 1234", "I'm he'S we'Ll it's", "!!\n\n!! \n", "a!!\n b", "x  y   z", "\n\n\n a", "\t\n 12",
         "  12 (12)", "abc123abc", "été 12é", "中文12中", "a_b/c\n//\n", "AbcDEF'sGhi", "e\u0301e\u0301 1", "١٢٣٤",
         "!?\n12", " !!", "\r\n\r\nx", "....\n", "HTMLParser don't"]
MERGES = """1 2|12 3|123 4|1234 5|12345 6|2 3|3 4|4 5|' s|' S|' L|' l|'l l|'L l|I '|e '|t '|t 's|! !|!! Ċ|!!Ċ Ċ|!! Ġ|Ċ Ċ|ĊĊ Ċ|Ġ Ċ|
ĉ Ċ|Ġ Ġ|ĠĠ Ġ|ĠĠĠ 1|Ġ 1|Ġ1 2|Ġ a|Ġ b|Ġ y|Ġ z|ĠĠ y|ĠĠ z|ĠĠĠ z|Ċ Ġ|ĊĠ a|a b|ab c|c 1|abc 1|3 a|Ġ (|( 1|(1 2|) Ċ|Ã ©|© 1|2 Ã|
t Ã©|Ã© t|ä ¸|ä¸ Ń|Ń æ|ĸ ĩ|ĩ 1|_ b|a _|/ c|b /|/ /|c Ċ|// Ċ|Ċ //|D E|DE F|c D|F '|F 's|s G|G h|Gh i|e Ì|eÌ ģ|ģ e|eÌģ eÌģ|Ġ !|
Ġ! !|? Ċ|! ?|!? Ċ|Ċ 1|č Ċ|čĊ čĊ|čĊčĊ x|Ċ x|. .|.. ..|.... Ċ|.. Ċ|H T|M L|HT ML|HTML P|L P|P a|Pa r|' t|n '|n 't|Ġ d|o n|Ġd on|
Ù ¡|¡ Ù|Ù¡ Ù|Ù ¢|¢ Ù|Ù¡ Ù¢|Ù ¤|Ġ 7|4 Ċ|m Ġ|Ġ e|ĉ 1|Ċ ĉ|7 Ġ|5 Ġ""".replace("\n", "").split("|")

def bytes_alphabet():
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for byte in range(256):
        if byte in kept: table[byte] = chr(byte)
        else: table[byte] = chr(256 + extra); extra += 1
    return table

def string(b): return struct.pack("<Q", len(b)) + b
def strings(items): return struct.pack("<IIQ", 9, 8, len(items)) + b"".join(string(i.encode()) for i in items)

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
def skip(data, at, kind):
    if kind == 8: return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind == 9:
        element, count = struct.unpack_from("<IQ", data, at); at += 12
        for _ in range(count if element in (8, 9) else 0): at = skip(data, at, element)
        return at if element in (8, 9) else at + count * SIZES[element]
    return at + SIZES[kind]

def rewritten(data, values):
    """The file with other values of some keys."""
    tensors, entries = struct.unpack_from("<QQ", data, 8); at = 24; out = []
    for _ in range(entries):
        n, = struct.unpack_from("<Q", data, at); key = data[at + 8:at + 8 + n].decode(); start = at; at += 8 + n
        kind, = struct.unpack_from("<I", data, at); end = skip(data, at + 4, kind)
        out.append(string(key.encode()) + values[key] if key in values else data[start:end]); at = end
    first = at
    for _ in range(tensors):
        n, = struct.unpack_from("<Q", data, at); at += 8 + n
        dims, = struct.unpack_from("<I", data, at); at += 4 + 8 * dims + 4 + 8
    pad = lambda n: n + (-n) % 32
    header = data[:24] + b"".join(out) + data[first:at]
    return header.ljust(pad(len(header)), b"\0") + data[pad(at):]

L.llama_tokenize.argtypes = [C.c_void_p, C.c_char_p, C.c_int32, C.POINTER(C.c_int32), C.c_int32, C.c_bool, C.c_bool]
alphabet = list(bytes_alphabet().values())
merges = [m for m in MERGES]
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "m.gguf"
    subprocess.run([SYNTH, "--shape", "tiny-llama", "--type", "f32", "--out", str(path)], check=True,
                   stdout=subprocess.DEVNULL)
    data = path.read_bytes()
    known, usable = set(alphabet), []
    for merge in merges:
        left, right = merge.split(" ")
        if left not in known or right not in known: raise SystemExit(f"{merge!r} joins what is not there")
        if left + right not in known: known.add(left + right); usable.append(merge)
    assert len(usable) <= 128, len(usable)
    while len(usable) < 128: usable.append(f"q {alphabet[200 + len(usable) % 40]}"); known.add("q" + usable[-1][2:])
    assert len(set(usable)) == 128
    tokens = alphabet + [m.replace(" ", "") for m in usable] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    cases = {}
    for name in NAMES:
        patched = Path(folder) / "p.gguf"
        patched.write_bytes(rewritten(data, {
            "tokenizer.ggml.pre": struct.pack("<I", 8) + string(name.encode()),
            "tokenizer.ggml.tokens": strings(tokens), "tokenizer.ggml.merges": strings(usable)}))
        model = L.llama_model_load_from_file(str(patched).encode(), L.llama_model_default_params())
        assert model, f"{name} does not load"
        vocabulary, ids = L.llama_model_get_vocab(model), []
        for text in TEXTS:
            raw = text.encode(); room = (C.c_int32 * (len(raw) + 8))()
            n = L.llama_tokenize(vocabulary, raw, len(raw), room, len(room), False, False)
            assert n >= 0; ids.append(list(room[:n]))
        cases[name] = ids
        L.llama_model_free(model)
out = Path(__file__).parents[2] / "models/tests/goldens/pre_tokenizers.json"
out.write_text(json.dumps({"tokens": tokens, "merges": usable, "texts": TEXTS, "ids": cases}, separators=(",", ":"),
                          ensure_ascii=False) + "\n")
print(len({json.dumps(ids) for ids in cases.values()}), "different rules")
