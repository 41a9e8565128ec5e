"""What vLLM answers with a model: greedy tokens, their log-probabilities, and the prompts'.

    answers.py FOLDER SETTINGS OUT     the same as a program, for engines of several processes

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import gc
import json
import sys

PROMPTS = [[7], list(range(5, 30)), list(range(17, 300, 3)), [251, 3, 3, 9]]
TOKENS = 10


@contextlib.contextmanager
def engine(folder, **more):
    """A vLLM LLM on a model's folder."""
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    settings = {"skip_tokenizer_init": True, "dtype": "bfloat16", "max_model_len": 256,
                "max_num_batched_tokens": 256, "max_num_seqs": 4, "enforce_eager": True,
                "enable_prefix_caching": False, "disable_log_stats": True, **more}
    llm = None
    try:
        llm = LLM(model=str(folder), **settings)
        yield llm
    finally:
        del llm
        gc.collect()
        cleanup_dist_env_and_memory()


def ask(llm, prompts=PROMPTS):
    from vllm import SamplingParams
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False,
                            logprobs=2, prompt_logprobs=1)
    found = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
    return [(list(answer.outputs[0].token_ids), _numbers(answer.outputs[0].logprobs),
             _numbers(answer.prompt_logprobs[1:])) for answer in found]


def _numbers(steps):
    return [{token: entry.logprob for token, entry in step.items()} for step in steps]


def of(folder, **more):
    with engine(folder, **more) as llm:
        return ask(llm)


if __name__ == "__main__":
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        json.dump(of(sys.argv[1], **json.loads(sys.argv[2])), out)
