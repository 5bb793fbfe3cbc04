"""GGUF to a plain Hugging Face directory: `python -m pdserve.gguf SOURCE_DIR FILE.gguf OUT_DIR`.

A process of its own, so that the caller never holds torch and gets the memory back.
"""

import sys
from pathlib import Path


def convert(source: Path, gguf_file: str, out: Path) -> None:
    """Writes config, bfloat16 safetensors, tokenizer and chat template of `source/gguf_file` into `out`.

    The same file gives the same bytes. Raises what transformers raises for a file it cannot read.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf_file)
    # Without dequantize the weights stay packed, and save_pretrained refuses them.
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=gguf_file, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
