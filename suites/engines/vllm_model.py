"""A four-layer Llama with a tokenizer trained here, for vLLM's dummy weights: vllm_model.py DIR"""
import json
import os
import pydoc_data.topics
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
special = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=4096, special_tokens=special, initial_alphabet=alphabet)
tokenizer.train_from_iterator(list(pydoc_data.topics.topics.values()), trainer)
tokenizer.save(os.path.join(out, "tokenizer.json"))
template = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(name, value):
    with open(os.path.join(out, name), "w") as file:
        json.dump(value, file)


write("tokenizer_config.json", {
    "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
    "model_max_length": 4096, "chat_template": template,
})
write("config.json", {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
    "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": tokenizer.get_vocab_size(),
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
})
write("generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})
