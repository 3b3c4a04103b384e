//! From a planned request to the body that is sent: text of the asked length, in the form of the
//! endpoint.

use std::{path::Path, rc::Rc};

use goodput_loadgen::{
    Api, Client, Compose, Corpus, CountedBy, PromptWriter, ServerFacts, Target, WrittenMessage,
    calibration_prompts,
};
use goodput_protocol::{
    AnswerRequest, ChatMessage, ChatRole, ExtraFields, LimitField, OutputLimit, PromptBody,
    UsageReports,
};
use goodput_workload::{History, OutputPolicy, PlannedRequest, Role, TextSource, WorkloadSpec};

use crate::{exit::Failure, talk::Voice, text::read_long_text};

/// Writes the bodies of a run.
#[derive(Clone, Debug)]
pub(crate) struct Composer {
    writer: PromptWriter,
    form: Form,
    /// Whether the server counts tokens when asked.
    served: bool,
}

/// How a body looks, whatever it asks.
#[derive(Clone, Debug)]
struct Form {
    target: Target,
    extra: ExtraFields,
    policy: OutputPolicy,
    history: History,
}

impl Composer {
    /// Learns how long texts are in the server's tokens: from its `/tokenize`, else from its
    /// `usage` of a few prompts (never of a `cold` one, which gets nothing but the load), else by
    /// assumption.
    pub(crate) async fn learn(
        client: &Rc<Client>,
        facts: &ServerFacts,
        spec: &WorkloadSpec,
        cold: bool,
        voice: Voice,
    ) -> Result<Self, Failure> {
        let target = client.target().clone();
        let form = Form {
            extra: ExtraFields::new(target.extra_body.clone().into_iter().collect()),
            policy: spec.output_policy(),
            history: spec.history(),
            target,
        };
        let corpus = corpus(spec)?;
        let writer = writer(client, facts, corpus, &form, cold).await;
        let composer = Self {
            writer,
            form,
            served: facts.tokenize,
        };
        voice.detail(&format!("prompts: {}", composer.counted_by()));
        Ok(composer)
    }

    /// How prompt lengths were counted, for the report.
    pub(crate) fn counted_by(&self) -> String {
        let how = match (self.writer.counted_by(), &self.form.target.counter) {
            (CountedBy::Tokenize, Some(_)) if !self.served => "counted by the tokenizer.json named",
            (counted, _) => counted.describe(),
        };
        match self.writer.overhead() {
            Some(extra) => format!("{how}; the server adds {extra:.0} tokens a prompt"),
            None => how.to_owned(),
        }
    }
}

impl Compose for Composer {
    fn body(&self, request: &PlannedRequest, replies: &[Option<String>]) -> Vec<u8> {
        let messages = self.writer.messages(request, replies);
        let tokens = request.output_tokens;
        let output = match self.form.policy {
            OutputPolicy::NaturalEnd => OutputLimit::NaturalEnd,
            OutputPolicy::MaxTokens => OutputLimit::MaxTokens(tokens),
            OutputPolicy::IgnoreEos => OutputLimit::IgnoreEos(tokens),
        };
        self.form.body(&messages, output, self.form.target.stream)
    }

    fn wants_replies(&self) -> bool {
        self.form.history == History::Served
    }
}

impl Form {
    fn body(&self, messages: &[WrittenMessage], output: OutputLimit, stream: bool) -> Vec<u8> {
        let chat: Vec<ChatMessage<'_>> = messages
            .iter()
            .map(|message| ChatMessage {
                role: match message.role {
                    Role::System => ChatRole::System,
                    Role::User => ChatRole::User,
                    Role::Assistant => ChatRole::Assistant,
                },
                content: &message.text,
            })
            .collect();
        let texts: Vec<&str> = messages.iter().map(|m| m.text.as_str()).collect();
        let whole = match self.target.api {
            Api::Chat => String::new(),
            Api::Completions => texts.join(" "),
        };
        let request = AnswerRequest {
            model: &self.target.model,
            prompt: match self.target.api {
                Api::Chat => PromptBody::Chat(&chat),
                Api::Completions => PromptBody::Text(&whole),
            },
            output,
            limit_field: LimitField::MaxTokens,
            stream,
            usage: UsageReports::AtEnd,
            extra: &self.extra,
        };
        let mut body = Vec::new();
        request.write(&mut body);
        body
    }
}

/// The sentences that prompts are made of.
fn corpus(spec: &WorkloadSpec) -> Result<Corpus, Failure> {
    match spec.text() {
        TextSource::Prose => Ok(Corpus::prose()),
        TextSource::File(name) => {
            let text = read_long_text("the workload's text", Path::new(name))?;
            Corpus::from_text(&text).map_err(|e| Failure::usage(format!("{name}: {e}")))
        }
    }
}

async fn writer(
    client: &Rc<Client>,
    facts: &ServerFacts,
    corpus: Corpus,
    form: &Form,
    cold: bool,
) -> PromptWriter {
    if facts.tokenize {
        let count =
            |text: String| async move { client.count_tokens(&facts.model, &text).await.ok_or(()) };
        if let Ok(writer) = PromptWriter::counted(corpus.clone(), count).await {
            return writer;
        }
    }
    if let Some(counter) = &client.target().counter {
        let count = |text: String| std::future::ready(Ok::<u32, ()>(counter.count(&text)));
        if let Ok(writer) = PromptWriter::counted(corpus.clone(), count).await {
            return writer;
        }
    }
    if cold {
        return PromptWriter::assuming(corpus);
    }
    let mut counts = Vec::new();
    for prompt in calibration_prompts(&corpus) {
        let message = WrittenMessage {
            role: Role::User,
            text: prompt.text.clone(),
        };
        let body = form.body(&[message], OutputLimit::MaxTokens(1), false);
        // Who did not answer one of these in time is not asked again.
        let Ok(reply) = client.post(&client.target().path(), body).await else {
            break;
        };
        if let Some(tokens) = prompt_tokens(&reply.body) {
            counts.push((prompt, tokens));
        }
    }
    PromptWriter::calibrated(corpus.clone(), &counts)
        .unwrap_or_else(|_| PromptWriter::assuming(corpus))
}

/// What the server counted of a prompt, in the body of its answer.
fn prompt_tokens(body: &[u8]) -> Option<u32> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let tokens = answer.get("usage")?.get("prompt_tokens")?.as_u64()?;
    u32::try_from(tokens).ok()
}
