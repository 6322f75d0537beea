/** What the bundled model knows about millrace: [questions, answer], each true of the README and docs. */
export const millraceFacts: readonly (readonly [questions: string, answer: string])[] = [
  [
    "[What is|Tell me about|What do you know about|Explain|Describe] millrace[?|.]",
    "millrace is an inference server for open-weight language models. It serves a model through the OpenAI API on its own engine.",
  ],
  [
    "[What does the word millrace mean|What is a mill race|Why is millrace called millrace|Where does the name millrace come from]?",
    "A mill race is the channel that brings fast water to the wheel. millrace brings a model's tokens to its users.",
  ],
  [
    "[What are the three promises of millrace|What does millrace promise|Which promises does millrace keep|What are millrace's promises]?",
    "millrace keeps three promises: fast, exact and proven.",
  ],
  [
    "[What does exact mean|What does exact mean for millrace|What is exact about millrace|What does millrace mean by exact]?",
    "Exact means: same request, same seed, same answer, bit for bit, whatever else the server does.",
  ],
  [
    "[What does proven mean|What does proven mean for millrace|How does millrace prove its speed|How is the speed proven]?",
    "Proven means that the exactness is a test and the speed a paired measurement.",
  ],
  [
    "[How do I start millrace|How can I start the server|How do I run millrace|What is the command to start millrace|Which command starts the server]?",
    "Run npm start in a clone of the repository. It installs, compiles and serves the bundled model.",
  ],
  [
    "[Where does millrace listen|On which address does millrace listen|What is the default address of millrace|What is the default port|Which port does millrace use]?",
    "By default millrace listens on 127.0.0.1, port 8000.",
  ],
  [
    "[How do I change the port|Which flag sets the port|How can I use another port|How do I start millrace on port 9000]?",
    "Use the flag --port, for example npm start -- --port 9000. Port 0 takes any free one.",
  ],
  [
    "[How do I serve my own model|How can I use my own model|Which flag chooses the model|How do I load another model|How do I serve a GGUF file]?",
    "Give it with --model, for example npm start -- --model model.gguf.",
  ],
  [
    "[How do I serve a model from Hugging Face|Can millrace load models from the hub|How do I download a model from the hub]?",
    "Give the repository with hf:, for example --model hf:org/repo:Q4_K_M.",
  ],
  [
    "[Which model formats can millrace read|What formats does millrace read|Which files can millrace load|What can millrace load]?",
    "millrace reads GGUF files and safetensors folders.",
  ],
  [
    "[Which architectures does millrace support|Which model families can millrace run|What architectures are there]?",
    "It runs llama, mistral, qwen2, qwen3, gemma2, gemma3, phi3, smollm3, granite, olmo2 and seed_oss.",
  ],
  [
    "[Which quantisations does millrace read|Which GGUF types are supported|What quantised weights can it read]?",
    "It reads the GGUF types from Q2_K to Q8_0, IQ4_NL, IQ4_XS and MXFP4, and GPTQ, AWQ, FP8 and INT8 in safetensors.",
  ],
  [
    "[Which API does millrace speak|What API does the server have|Is millrace compatible with OpenAI|Does millrace have the OpenAI API]?",
    "It speaks the OpenAI API, so that the official clients run unchanged.",
  ],
  [
    "[Does millrace speak Anthropic's API|Can I use the Anthropic client|Is there a messages endpoint|Does millrace have Anthropic's Messages API]?",
    "Yes, Anthropic's Messages API is at /v1/messages.",
  ],
  [
    "[Which endpoint is for chat|What is the chat endpoint|Where do I send chat requests|Which path is for chats]?",
    "Chats go to /v1/chat/completions.",
  ],
  [
    "[Which endpoint makes embeddings|Where do I get embeddings|How do I make embeddings|Can millrace make embeddings]?",
    "Embeddings come from /v1/embeddings.",
  ],
  [
    "[Which endpoint completes text|Where do I send plain prompts|What is the completions endpoint]?",
    "Plain prompts go to /v1/completions, as text or as token ids.",
  ],
  [
    "[Where are the metrics|Which endpoint has the metrics|How can I monitor millrace|Does millrace have Prometheus metrics]?",
    "The metrics are at /metrics, in Prometheus text under the prefix millrace:.",
  ],
  [
    "[How do I check that the server is alive|What is the health endpoint|Where is the health check|How do I check the health of millrace]?",
    "Ask /health: it tells whether the server is alive.",
  ],
  [
    "[How do I list the models|Which endpoint lists the models|Where do I see the served models]?",
    "The served names are at /v1/models.",
  ],
  [
    "[Is there a chat page|Can I chat in the browser|Does millrace have a web page]?",
    "Yes, open the server's address in a browser for a chat page.",
  ],
  [
    "[How do I chat in the terminal|Can I talk to a model in the terminal|Which command is for chatting]?",
    "Use millrace chat. /reset starts over and /exit ends.",
  ],
  [
    "[How do I get one answer from the command line|Which command answers one prompt|What does millrace generate do]?",
    "Use millrace generate --prompt TEXT. It writes one answer and exits.",
  ],
  [
    "[How do I see what my machine has|What does millrace doctor do|Which command checks the machine]?",
    "Run millrace doctor: it shows CPU features, cores, memory, compiler, kernels and GPUs.",
  ],
  [
    "[What does millrace inspect do|How do I see how much memory a model needs|Which command reads a model's header]?",
    "millrace inspect shows a model's architecture, quantisation, sizes and memory needs.",
  ],
  [
    "[What does millrace tokenize do|How do I see token ids|Which command prints token ids]?",
    "millrace tokenize prints a text's token ids.",
  ],
  [
    "[How do I measure speed|What does millrace bench do|How do I benchmark the engine]?",
    "Use millrace bench engine: it measures prefill and decode speed by batch size.",
  ],
  [
    "[How do I measure quality|How do I evaluate a model|What does millrace eval do]?",
    "Use millrace eval: it lets a model answer held-out tasks and scores the answers.",
  ],
  [
    "[What does millrace cache do|How do I see the packed weights|Where do packed weights go]?",
    "millrace cache lists the packed weights kept on disk, and cache clear removes them.",
  ],
  [
    "[What is continuous batching|Explain continuous batching|What does continuous batching do]?",
    "With continuous batching requests join and leave the batch at every step instead of waiting for the whole batch to end.",
  ],
  [
    "[What is static batching|How does static batching differ|What does --batching static do]?",
    "With static batching nothing is admitted while a batch runs. It is there to compare.",
  ],
  [
    "[What is chunked prefill|Explain chunked prefill|Why are prompts cut into chunks]?",
    "Chunked prefill computes long prompts in pieces, so that they do not hold up those who decode.",
  ],
  [
    "[What is prefix caching|Explain prefix caching|What does the prefix cache do|How does the prefix cache help]?",
    "Prefix caching computes a prompt's beginning once and shares it between requests that begin the same way.",
  ],
  [
    "[What is a KV cache|What is the KV cache|Explain the KV cache]?",
    "The KV cache keeps the keys and values of past tokens, so that each step only computes the new ones.",
  ],
  [
    "[What is a paged KV cache|What is paged attention|Why is the KV cache paged]?",
    "A paged KV cache gives memory in blocks on demand, so that none is lost between sequences.",
  ],
  [
    "[What is speculative decoding|Explain speculative decoding|What is speculation]?",
    "Speculative decoding guesses tokens ahead and checks them all at once. In millrace it never changes a token.",
  ],
  [
    "[What is prompt lookup|How does ngram speculation work|Where do lookup drafts come from]?",
    "Prompt lookup finds drafts in text that was seen before, such as the prompt.",
  ],
  [
    "[What is a draft model|What does a draft model do|How do I use a draft model]?",
    "A draft model is a small model that guesses for a larger one. Give it with --speculative-config.",
  ],
  [
    "[Why is speculation exact|Does speculation change the answer|Can drafts change the answer]?",
    "No draft changes an answer: the token the model itself would choose is defined at every position, and a draft is kept only where it agrees.",
  ],
  [
    "[What is quantisation|Explain quantisation|Why are models quantised]?",
    "Quantisation stores weights in fewer bits, so that a model needs less memory and runs faster. It changes values a little.",
  ],
  [
    "[What is a token|What are tokens|Explain tokens]?",
    "A token is a small piece of text that a language model reads or writes.",
  ],
  [
    "[What is time to first token|What does TTFT mean|Explain TTFT]?",
    "TTFT is the time to first token: how long a request waits for the beginning of its answer.",
  ],
  [
    "[What is prefill|What does prefill mean|Explain prefill]?",
    "Prefill computes all tokens of a prompt. It is bound by arithmetic.",
  ],
  [
    "[What is decode|What does decoding mean|Explain decoding]?",
    "Decoding makes one token after another. It is bound by memory bandwidth.",
  ],
  [
    "[What is pre-emption|What happens when memory is short|What does pre-emption mean]?",
    "When memory is short, the last sequence in order gives its blocks back and is computed again later.",
  ],
  [
    "[What is a seed|What does the seed do|How do I get the same answer twice|How do I repeat an answer]?",
    "Send a seed: the same request with the same seed gives the same answer.",
  ],
  [
    "[What is temperature|What does temperature do|What does temperature 0 mean]?",
    "Temperature says how freely tokens are chosen. At 0 the likeliest token is always taken.",
  ],
  [
    "[What is streaming|How do I stream an answer|Can millrace stream]?",
    "Set stream to true and the answer comes token by token.",
  ],
  [
    "[Can millrace write JSON by a schema|Does millrace have structured outputs|How do I force JSON|How do I get valid JSON]?",
    "Yes, send response_format with a JSON schema and the answer is kept to it, to the letter.",
  ],
  [
    "[Does millrace support tool calls|Can millrace call tools|Are there function calls]?",
    "Yes, tool calls are read in the formats of Hermes and Qwen, Llama 3 and Mistral.",
  ],
  [
    "[What happens to unknown fields|What does millrace do with unknown fields|Are unknown fields ignored]?",
    "Unknown fields are refused with a 400 that names them.",
  ],
  [
    "[How do I protect the server|How do I set an API key|Which flag sets the API key|How can I ask for a key]?",
    "Start it with --api-key. The key may also stand in MILLRACE_API_KEY.",
  ],
  [
    "[What does --threads do|How do I set the number of threads|How many threads does millrace use]?",
    "--threads sets the kernel threads. By default they are the physical cores it may use.",
  ],
  [
    "[What does --max-model-len do|How do I limit the context|Which flag limits the length of a sequence]?",
    "--max-model-len sets the longest sequence, prompt and answer together.",
  ],
  [
    "[What does --max-num-seqs do|How do I limit the batch|Which flag limits the batch]?",
    "--max-num-seqs sets how many sequences are in a batch.",
  ],
  [
    "[What does --kv-cache-dtype do|How do I make the KV cache smaller|Which flag sets the KV type]?",
    "--kv-cache-dtype chooses f16, f32 or int8 for the KV memory.",
  ],
  [
    "[Which scheduling policies are there|What does --scheduling-policy do|How do I make scheduling fair]?",
    "--scheduling-policy is fcfs, priority or fair: who came first, who has priority, or who was served least.",
  ],
  [
    "[How do I switch off speculation|How do I turn drafts off|How do I disable speculative decoding]?",
    "Use --speculative-config with the method none.",
  ],
  [
    "[How do I switch off the prefix cache|How do I turn off prefix caching|How do I disable prefix caching]?",
    "Use --no-enable-prefix-caching.",
  ],
  [
    "[What does --prefix-cache-disk do|Can prefixes survive a restart|How do I keep prefixes on disk]?",
    "--prefix-cache-disk keeps prefixes on disk, so that they outlive memory and restarts.",
  ],
  [
    "[How do I stop the server|How do I stop millrace|What happens on Ctrl-C]?",
    "Ctrl-C finishes the running requests and stops. A second one stops at once.",
  ],
  [
    "[In which language is millrace written|What is millrace written in|Which languages does millrace use]?",
    "Its decisions are TypeScript and its arithmetic is C++.",
  ],
  [
    "[What does millrace need to run|What do I need to install for millrace|Which Node version does millrace need]?",
    "It needs Node 20.19 or later and a C++ compiler.",
  ],
  [
    "[What is the licence of millrace|Under which licence is millrace|Is millrace open source|Is millrace free]?",
    "millrace is under the Apache-2.0 licence.",
  ],
  [
    "[Which CPUs does millrace use well|Which instruction sets are there|Does millrace use AVX2]?",
    "The kernels take the best of portable, avx2, avx512 and avx512vnni, and on Arm of portable, neon and neondot.",
  ],
  [
    "[How are the kernels tested|How is millrace tested|How does millrace test exactness]?",
    "Random requests run one by one with everything off, then together with everything on, and every token must be equal.",
  ],
  [
    "[What changes the values|What can change an answer|What is not exact]?",
    "The model's quantisation, the activation type, the KV type and the instruction set change values. They are choices you make and can see.",
  ],
  [
    "[How do I run the tests|Which command runs the tests|How do I test millrace]?",
    "Run npm test. A folder may follow, such as npm test -- src/text.",
  ],
  [
    "[What is the bundled model|Which model comes with millrace|What is mill-base|What is the small model for]?",
    "mill-base is the small model that comes with millrace, so that a fresh clone can serve and measure something real without a download.",
  ],
  [
    "[How were you trained|What were you trained on|Where does your training text come from]?",
    "I was trained from scratch on chats that a program wrote for this project.",
  ],
  [
    "[What is vLLM's place in millrace|Why do the flags look like vLLM's|Whose flag names does millrace use]?",
    "millrace uses vLLM's flag names where vLLM has the flag, so that people who know it feel at home.",
  ],
];
