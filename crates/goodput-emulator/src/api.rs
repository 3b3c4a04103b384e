//! What a client asks, checked, and how long its answers will be.

use goodput_stats::{Draws, Stream, mix, sampler};

use crate::{
    body::{Body, Stop},
    config::NaturalLength,
    tokenizer::TokenSink,
    words,
};

/// Which of the two APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
}

/// A refusal in vLLM's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
}

impl ApiError {
    pub(crate) fn bad_request(message: impl Into<String>, param: Option<&str>) -> Self {
        Self {
            status: 400,
            kind: "BadRequestError",
            message: message.into(),
            param: param.map(str::to_owned),
        }
    }

    /// The body is not JSON of the expected shape: vLLM's other kind of 400.
    pub(crate) fn malformed(message: String, param: Option<&str>) -> Self {
        Self {
            kind: "Bad Request",
            ..Self::bad_request(message, param)
        }
    }

    /// The engine has failed.
    pub(crate) fn internal() -> Self {
        Self {
            status: 500,
            kind: "InternalServerError",
            ..Self::bad_request("EngineCore encountered an issue.", None)
        }
    }

    /// The engine will not take the request.
    pub(crate) fn refused(refusal: goodput_sim::Refusal) -> Self {
        Self::bad_request(
            format!("The engine cannot serve this request: it {refusal}."),
            None,
        )
    }

    pub(crate) fn missing(field: &str) -> Self {
        let param = format!("body.{field}");
        let message = format!(
            "1 validation error:\n  {{'type': 'missing', 'loc': '{param}', 'msg': 'Field required'}}"
        );
        Self::malformed(message, Some(&param))
    }
}

/// One answer to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Input tokens of its prompt.
    pub(crate) input_tokens: u32,
    /// Output tokens it will have.
    pub(crate) output_tokens: u32,
    /// Chained hashes of the whole blocks of prompt and answer: the answer comes back as history.
    /// The engine takes them over.
    pub(crate) blocks: Vec<u64>,
    /// What its words are drawn from.
    pub(crate) key: u64,
    /// Why it will end.
    pub(crate) finish: Finish,
}

/// Why an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// At the limit on its tokens.
    Length,
    /// At its natural end.
    Natural,
    /// At a stop string; only this much of the last word is left.
    StopString { stop: String, last: String },
}

/// A checked request for answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) api: Api,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    /// In order of their index; several for `n` or a list of prompts.
    pub(crate) choices: Vec<Choice>,
    /// Input tokens, each prompt counted once.
    pub(crate) input_tokens: u32,
    /// The limit that was asked.
    pub(crate) max_tokens: Option<u32>,
    /// Choices per prompt.
    pub(crate) n: u32,
}

/// What a request is checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) model_id: &'a str,
    pub(crate) context_limit: u32,
    /// What the profile's template adds to a conversation.
    pub(crate) template_tokens: u32,
    pub(crate) block_tokens: u32,
    pub(crate) natural: Option<NaturalLength>,
    pub(crate) ignore_max_tokens: bool,
    pub(crate) seed: u64,
}

/// Tokens around a conversation of one message as this server writes it: four around the message, three
/// that open the answer. A profile with a longer template has the rest added.
const OWN_TEMPLATE: u32 = 7;

/// An answer to a request that states no limit and to whose length nothing else is known.
const USUAL: NaturalLength = NaturalLength {
    median: 250.0,
    sigma: 0.7,
};

impl Ask {
    /// Checks a body and says how long its answers will be.
    pub(crate) fn check(body: &Body<'_>, api: Api, terms: &Terms<'_>) -> Result<Self, ApiError> {
        if let Some(name) = body.model.as_deref().filter(|name| *name != terms.model_id) {
            return Err(ApiError {
                status: 404,
                kind: "NotFoundError",
                message: format!("The model `{name}` does not exist."),
                param: Some("model".to_owned()),
            });
        }
        let sinks = body.tokenize(api, &|| TokenSink::new(terms.block_tokens))?;
        check_temperature(body.temperature)?;
        let n = body.n.unwrap_or(1);
        if !(1..=128).contains(&n) {
            let message = format!("n must be at least 1 and at most 128, got {n}.");
            return Err(ApiError::bad_request(message, Some("n")));
        }
        let max_tokens = check_limit(body, terms)?;
        let mut ask = Self {
            api,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.unwrap_or_default().include_usage,
            continuous_usage: body
                .stream_options
                .unwrap_or_default()
                .continuous_usage_stats,
            choices: Vec::with_capacity(sinks.len() * n as usize),
            input_tokens: 0,
            max_tokens,
            n,
        };
        let template = match api {
            Api::Chat => terms.template_tokens.saturating_sub(OWN_TEMPLATE),
            Api::Completions => 0,
        };
        for sink in sinks {
            let input_tokens = sink.tokens().saturating_add(template);
            check_context(input_tokens, max_tokens, terms.context_limit)?;
            ask.input_tokens = ask.input_tokens.saturating_add(input_tokens);
            let digest = sink.digest();
            for copy in 0..n {
                let key = mix(digest ^ mix(terms.seed) ^ u64::from(copy));
                let room = terms.context_limit - input_tokens;
                let (output_tokens, finish) = body.answer(key, room, max_tokens, terms);
                ask.choices.push(Choice {
                    input_tokens,
                    output_tokens,
                    blocks: with_answer(sink.clone(), key, output_tokens),
                    key,
                    finish,
                });
            }
        }
        Ok(ask)
    }

    /// Output tokens of all choices.
    pub(crate) fn output_tokens(&self) -> u32 {
        self.choices.iter().map(|choice| choice.output_tokens).sum()
    }
}

fn with_answer(mut sink: TokenSink, key: u64, tokens: u32) -> Vec<u64> {
    let mut word = Vec::with_capacity(24);
    for position in 0..tokens {
        word.clear();
        words::push_word(&mut word, key, position);
        sink.token(word.trim_ascii_start());
    }
    sink.into_blocks()
}

impl Body<'_> {
    /// How many tokens the answer drawn from `key` has, and why it ends there.
    fn answer(
        &self,
        key: u64,
        room: u32,
        max_tokens: Option<u32>,
        terms: &Terms<'_>,
    ) -> (u32, Finish) {
        let obeyed = max_tokens.filter(|_| !terms.ignore_max_tokens);
        let limit = obeyed.unwrap_or(room).min(room).max(1);
        let min_tokens = self.min_tokens.unwrap_or(0).min(limit);
        let natural = match (terms.natural, obeyed) {
            _ if self.ignore_eos == Some(true) => None,
            (None, Some(_)) => None,
            (natural, _) => Some(natural.unwrap_or(USUAL)),
        };
        let (tokens, finish) = match natural.map(|natural| natural.draw(key)) {
            Some(length) if length < limit => (length.max(min_tokens).max(1), Finish::Natural),
            _ => (limit, Finish::Length),
        };
        self.stopped(key, tokens, min_tokens)
            .unwrap_or((tokens, finish))
    }

    /// Where a stop string ends the answer, if one does.
    fn stopped(&self, key: u64, tokens: u32, min_tokens: u32) -> Option<(u32, Finish)> {
        let stops = match self.stop.as_ref()? {
            Stop::One(stop) => std::slice::from_ref(stop),
            Stop::Several(stops) => stops.as_slice(),
        };
        let text = words::text(key, tokens);
        let from = words::text(key, min_tokens).len();
        let found = stops
            .iter()
            .filter(|stop| !stop.is_empty())
            .filter_map(|stop| {
                let at = from + text[from..].find(stop.as_str())?;
                Some((at, stop))
            });
        let (at, stop) = found.min_by_key(|(at, _)| *at)?;
        // The answer ends with the token that completes the stop string; the text ends before it.
        let before = &text[..at + stop.len()];
        let used = u32::try_from(before.matches(' ').count()).unwrap_or(0) + 1;
        let used = used.min(tokens);
        let start = words::text(key, used - 1).len();
        let last = text.get(start..at).unwrap_or("").to_owned();
        let stop = stop.clone();
        Some((used, Finish::StopString { stop, last }))
    }
}

impl NaturalLength {
    /// The length drawn from `key`.
    fn draw(self, key: u64) -> u32 {
        const LENGTH: Stream = Stream(0x6c65_6e67_7468);
        let length = sampler::log_normal(&mut Draws::new(key, LENGTH, 0), self.median, self.sigma);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the value is clamped to the range of u32 first"
        )]
        let length = length.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        length
    }
}

fn check_temperature(temperature: Option<f64>) -> Result<(), ApiError> {
    match temperature {
        Some(value) if value < 0.0 => Err(ApiError::bad_request(
            format!(
                "temperature must be non-negative, got {value:?}. (parameter=temperature, \
                 value={value:?})"
            ),
            Some("temperature"),
        )),
        _ => Ok(()),
    }
}

fn check_limit(body: &Body<'_>, terms: &Terms<'_>) -> Result<Option<u32>, ApiError> {
    let Some(asked) = body.max_completion_tokens.or(body.max_tokens) else {
        return Ok(None);
    };
    let limit = u32::try_from(asked).ok().filter(|&limit| limit > 0);
    let limit = limit.ok_or_else(|| {
        let message = format!(
            "max_tokens must be at least 1, got {asked}. (parameter=max_tokens, value={asked})"
        );
        ApiError::bad_request(message, Some("max_tokens"))
    })?;
    if limit > terms.context_limit {
        let message = format!(
            "max_tokens={limit} cannot be greater than max_model_len={}. Please request fewer \
             output tokens. (parameter=max_tokens, value={limit})",
            terms.context_limit
        );
        return Err(ApiError::bad_request(message, Some("max_tokens")));
    }
    if let Some(least) = body.min_tokens.filter(|&least| least > limit) {
        let message =
            format!("min_tokens must be less than or equal to max_tokens={limit}, got {least}.");
        return Err(ApiError::bad_request(message, Some("min_tokens")));
    }
    Ok(Some(limit))
}

fn check_context(input: u32, max_tokens: Option<u32>, limit: u32) -> Result<(), ApiError> {
    if input.saturating_add(max_tokens.unwrap_or(1)) <= limit {
        return Ok(());
    }
    let message = if input >= limit {
        let least = limit.saturating_add(1);
        format!(
            "This model's maximum context length is {limit} tokens. However, your prompt contains \
             at least {least} input tokens, which exceeds this limit even without any output \
             tokens. Please reduce the length of the input prompt. (parameter=input_tokens, \
             value={least})"
        )
    } else {
        format!(
            "This model's maximum context length is {limit} tokens. However, you requested {} \
             output tokens and your prompt contains {input} input tokens, for a total of {} \
             tokens. Please reduce the length of the input prompt or the number of requested \
             output tokens. (parameter=input_tokens, value={input})",
            max_tokens.unwrap_or(1),
            input.saturating_add(max_tokens.unwrap_or(1)),
        )
    };
    Err(ApiError::bad_request(message, Some("input_tokens")))
}
