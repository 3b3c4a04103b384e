//! From a planned request to the body that is sent.
use std::rc::Rc;

use goodput_loadgen::{Api, Client, Compose, ServerFacts, Target};
use goodput_protocol::{
    AnswerRequest, ChatMessage, ChatRole, ExtraFields, LimitField, OutputLimit, PromptBody,
    UsageReports,
};
use goodput_workload::{OutputPolicy, PlannedRequest, Role, WorkloadSpec};

use crate::{exit::Failure, talk::Voice};

/// Writes bodies.
pub(crate) struct Composer {
    target: Target,
    extra: ExtraFields,
    policy: OutputPolicy,
}

impl Composer {
    pub(crate) async fn learn(
        client: &Rc<Client>,
        _facts: &ServerFacts,
        spec: &WorkloadSpec,
        _seed: u64,
        _voice: Voice,
    ) -> Result<Self, Failure> {
        let target = client.target().clone();
        Ok(Self {
            extra: ExtraFields::new(target.extra_body.clone().into_iter().collect()),
            policy: spec.output_policy(),
            target,
        })
    }

    pub(crate) fn counted_by(&self) -> String {
        "words".to_owned()
    }

    fn text(key: u64, tokens: u32) -> String {
        (0..tokens.max(1))
            .map(|i| format!("w{:x}", goodput_stats::mix(key ^ u64::from(i)) >> 48))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Compose for Composer {
    fn body(&self, request: &PlannedRequest, _replies: &[Option<String>]) -> Vec<u8> {
        let texts: Vec<(Role, String)> = request
            .prompt
            .segments()
            .iter()
            .map(|s| (s.role, Self::text(s.key, s.tokens)))
            .collect();
        let messages: Vec<ChatMessage<'_>> = texts
            .iter()
            .map(|(role, text)| ChatMessage {
                role: match role {
                    Role::System => ChatRole::System,
                    Role::User => ChatRole::User,
                    Role::Assistant => ChatRole::Assistant,
                },
                content: text,
            })
            .collect();
        let whole: String = texts
            .iter()
            .map(|t| t.1.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        let body = AnswerRequest {
            model: &self.target.model,
            prompt: match self.target.api {
                Api::Chat => PromptBody::Chat(&messages),
                Api::Completions => PromptBody::Text(&whole),
            },
            output: match self.policy {
                OutputPolicy::NaturalEnd => OutputLimit::NaturalEnd,
                OutputPolicy::MaxTokens => OutputLimit::MaxTokens(request.output_tokens),
                OutputPolicy::IgnoreEos => OutputLimit::IgnoreEos(request.output_tokens),
            },
            limit_field: LimitField::MaxTokens,
            stream: self.target.stream,
            usage: UsageReports::AtEnd,
            extra: &self.extra,
        };
        let mut out = Vec::new();
        body.write(&mut out);
        out
    }
}
