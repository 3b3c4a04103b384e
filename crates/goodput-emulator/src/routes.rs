//! What each path answers.

use goodput_record::{EngineSample, Timestamp};
use goodput_sim::EngineRequest;
use serde_json::json;

use crate::{
    api::{Api, ApiError, Ask, Terms},
    body::{self, Body},
    exchange::{Exchange, Opening},
    faults::Strike,
    http::{Framing, Head, Method, ResponseHead},
    metrics,
    server::Server,
    wire,
};

const JSON: &str = "application/json";

/// A whole answer that needs no engine.
#[derive(Debug)]
struct Reply {
    status: u16,
    content_type: &'static str,
    body: Vec<u8>,
    retry_after: Option<u32>,
}

impl Reply {
    const fn json(status: u16, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type: JSON,
            body,
            retry_after: None,
        }
    }

    fn error(error: &ApiError) -> Self {
        Self::json(error.status, wire::error(error))
    }

    fn detail(status: u16, detail: &str) -> Self {
        Self::json(status, json!({ "detail": detail }).to_string().into_bytes())
    }
}

fn unavailable(message: &str, kind: &'static str, status: u16) -> Reply {
    let error = ApiError {
        status,
        kind,
        message: message.to_owned(),
        param: None,
    };
    Reply {
        retry_after: Some(1),
        ..Reply::error(&error)
    }
}

impl Server {
    /// Answers a request that was read at `at`, or hands it to an engine.
    pub(crate) fn request(&mut self, slot: usize, head: Head, body: &[u8], at: Timestamp) {
        let reply = match (head.method, head.path.as_str()) {
            _ if self.is_loading(at) => unavailable("Loading model", "unavailable_error", 503),
            _ if !self.is_allowed(&head) => {
                Reply::json(401, br#"{"error":"Unauthorized"}"#.to_vec())
            }
            (Method::Post, "/v1/chat/completions") => {
                return self.generate(slot, head, body, Api::Chat, at);
            }
            (Method::Post, "/v1/completions") => {
                return self.generate(slot, head, body, Api::Completions, at);
            }
            (Method::Post, "/tokenize") => self.tokenize(body),
            (Method::Get, path) => self.get(path),
            (_, path) if is_known(path) => Reply::detail(405, "Method Not Allowed"),
            _ => Reply::detail(404, "Not Found"),
        };
        self.reply(slot, &head, &reply);
    }

    /// Answers what is not HTTP, and closes.
    pub(crate) fn refuse(&mut self, slot: usize, status: u16, why: &str) {
        let head = Head {
            method: Method::Other,
            path: String::new(),
            request_id: None,
            bearer: None,
            keep_alive: false,
        };
        let reply = Reply {
            content_type: "text/plain; charset=utf-8",
            ..Reply::json(status, why.as_bytes().to_vec())
        };
        self.reply(slot, &head, &reply);
    }

    fn is_loading(&self, at: Timestamp) -> bool {
        at < self.loaded
    }

    fn is_allowed(&self, head: &Head) -> bool {
        let key = self.api_key.as_deref();
        let guarded = head.path.starts_with("/v1/") || head.path == "/tokenize";
        key.is_none_or(|key| !guarded || head.bearer.as_deref() == Some(key))
    }

    fn reply(&mut self, slot: usize, head: &Head, reply: &Reply) {
        if let Some(connection) = self.floor.connections.get(slot) {
            let response = ResponseHead {
                status: reply.status,
                content_type: reply.content_type,
                framing: Framing::Length(reply.body.len()),
                request_id: head.request_id.as_deref(),
                keep_alive: head.keep_alive,
                retry_after: reply.retry_after,
            };
            response.write(&mut connection.output);
            connection.output.extend_from_slice(&reply.body);
        }
        self.floor.after_answer(slot, head.keep_alive);
    }

    fn get(&mut self, path: &str) -> Reply {
        let profile = &self.profile;
        match path {
            "/health" | "/ping" => Reply::json(200, Vec::new()),
            "/v1/models" => {
                let created = self.floor.clock.unix_seconds(Timestamp::ZERO);
                let body = wire::models(&profile.model_id, created, self.context_limit);
                Reply::json(200, body)
            }
            "/version" => {
                let version = json!({ "version": wire::VERSION });
                Reply::json(200, version.to_string().into_bytes())
            }
            "/metrics" => Reply {
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                ..Reply::json(200, self.metrics().into_bytes())
            },
            "/emulator/lateness" => {
                let figures = serde_json::to_vec(&self.floor.lateness.figures());
                Reply::json(
                    200,
                    figures.expect("invariant: plain values always serialize"),
                )
            }
            _ if is_known(path) => Reply::detail(405, "Method Not Allowed"),
            _ => Reply::detail(404, "Not Found"),
        }
    }

    fn metrics(&mut self) -> String {
        let all = self.floor.metrics.len();
        let shown = if self.metrics_in_turn {
            let turn = self.looks % all;
            turn..turn + 1
        } else {
            0..all
        };
        self.looks += 1;
        let began = self.floor.clock.unix_seconds(self.born) as f64;
        let samples = self.replicas.samples().zip(&self.floor.metrics).enumerate();
        let replicas = samples.filter(|(replica, _)| shown.contains(replica)).map(
            |(replica, ((sample, counters), metrics))| {
                let sample = EngineSample {
                    // As if they had been started one after the other.
                    started_unix_s: Some(began + 10.0 * replica as f64),
                    ..sample
                };
                (sample, counters, metrics)
            },
        );
        metrics::exposition(&self.profile, self.floor.counts.rejected, replicas)
    }

    fn tokenize(&self, body: &[u8]) -> Reply {
        match Body::parse(body).and_then(|body| body::tokenize(&body)) {
            Ok((ids, strings)) => {
                let body = wire::tokens(&ids, strings.as_deref(), self.context_limit);
                Reply::json(200, body)
            }
            Err(error) => Reply::error(&error),
        }
    }

    fn generate(&mut self, slot: usize, head: Head, body: &[u8], api: Api, at: Timestamp) {
        if self.is_draining() {
            let reply = unavailable("The server is shutting down.", "unavailable_error", 503);
            let head = Head {
                keep_alive: false,
                ..head
            };
            return self.reply(slot, &head, &reply);
        }
        let terms = Terms {
            model_id: &self.profile.model_id,
            context_limit: self.context_limit,
            template_tokens: self.profile.template_tokens,
            block_tokens: self.profile.block_tokens.get(),
            natural: self.natural,
            ignore_max_tokens: self.floor.faults.ignore_max_tokens,
            seed: self.seed,
        };
        match Body::parse(body).and_then(|body| Ask::check(&body, api, &terms)) {
            Ok(ask) => self.serve(slot, head, ask, at),
            Err(error) => {
                self.floor.counts.invalid += 1;
                self.reply(slot, &head, &Reply::error(&error));
            }
        }
    }

    fn serve(&mut self, slot: usize, head: Head, ask: Ask, at: Timestamp) {
        let number = self.floor.counts.requests;
        self.floor.counts.requests += 1;
        let faults = &self.floor.faults;
        let strike = faults.strike(self.seed, number, ask.output_tokens());
        let struck = match strike {
            Strike::Html => Reply {
                content_type: "text/html; charset=utf-8",
                ..Reply::json(200, wire::HTML.as_bytes().to_vec())
            },
            Strike::Reject => {
                self.floor.counts.rejected += 1;
                let kind = match faults.reject_status {
                    429 => "TooManyRequestsError",
                    _ => "ServiceUnavailableError",
                };
                unavailable("The server is overloaded.", kind, faults.reject_status)
            }
            Strike::Error => Reply::error(&ApiError::internal()),
            Strike::None | Strike::Cut { .. } | Strike::ErrorEvent { .. } => {
                return self.submit(slot, head, ask, strike, at);
            }
        };
        self.floor.counts.struck += 1;
        self.reply(slot, &head, &struck);
    }

    fn submit(&mut self, slot: usize, head: Head, mut ask: Ask, strike: Strike, at: Timestamp) {
        let replica = self.replicas.least_loaded();
        let first_index = self.replicas.take_indices(ask.choices.len() as u64);
        for (index, choice) in (first_index..).zip(&mut ask.choices) {
            let (input, output) = (choice.input_tokens, choice.output_tokens);
            let request = EngineRequest {
                blocks: std::mem::take(&mut choice.blocks).into_iter().collect(),
                ..EngineRequest::new(index, input, output)
            };
            if let Err(refusal) = self.replicas.submit(replica, at, request) {
                (first_index..index).for_each(|index| self.replicas.cancel(replica, at, index));
                self.floor.counts.invalid += 1;
                return self.reply(slot, &head, &Reply::error(&ApiError::refused(refusal)));
            }
        }
        let opening = Opening {
            number: self.floor.counts.requests,
            arrived: at,
            created: self.floor.clock.unix_seconds(at),
            request_id: head.request_id,
            keep_alive: head.keep_alive,
            replica,
            first_index,
            strike,
        };
        let exchange = Exchange::new(ask, opening, &self.floor.model_id);
        self.floor.open(slot, exchange);
    }
}

fn is_known(path: &str) -> bool {
    const KNOWN: [&str; 8] = [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/models",
        "/tokenize",
        "/health",
        "/version",
        "/metrics",
        "/emulator/lateness",
    ];
    KNOWN.contains(&path)
}
