//! Feeds an answer to the readers as a connection would and keeps all that comes out.

use std::{cell::RefCell, rc::Rc};

use goodput_protocol::{
    Channel, EndOfBody, ExchangeReader, Head, ReplyReader, StreamEnd, StreamEvents, StreamOptions,
};
use goodput_record::{Arrival, OpenRequest, RequestRecord, SeriesId, Sink, Timestamp, Vantage};

/// What one answer came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) end: StreamEnd,
    pub(crate) record: RequestRecord,
    pub(crate) answer: String,
    pub(crate) reasoning: String,
    pub(crate) tool_names: Vec<String>,
    pub(crate) tool_arguments: String,
    /// Tokens of each token event, by a running usage.
    pub(crate) tokens: Vec<u32>,
    pub(crate) reusable: bool,
}

#[derive(Default)]
struct Shelf(RefCell<Option<RequestRecord>>);

impl Sink for Shelf {
    fn arrived(&self, _: &Arrival) {}
    fn ended(&self, record: RequestRecord) {
        *self.0.borrow_mut() = Some(record);
    }
}

struct Listener {
    open: OpenRequest<Shelf>,
    answer: String,
    reasoning: String,
    tool_names: Vec<String>,
    tool_arguments: String,
    tokens: Vec<u32>,
}

impl StreamEvents for Listener {
    fn token_event(&mut self, at: Timestamp, tokens: u32, answer: bool) {
        self.tokens.push(tokens);
        self.open.token_event(at, tokens, answer);
    }
    fn text(&mut self, channel: Channel, text: &str) {
        match channel {
            Channel::Answer => self.answer.push_str(text),
            Channel::Reasoning => self.reasoning.push_str(text),
            Channel::ToolName => self.tool_names.push(text.to_owned()),
            Channel::ToolArguments => self.tool_arguments.push_str(text),
        }
    }
}

/// How the bytes come.
pub(crate) enum Transport {
    /// With HTTP's head and framing.
    Raw,
    /// A body behind a head.
    Body(Head, EndOfBody),
}

/// Reads `bytes`, whose pieces end at the offsets and came at the milliseconds of `delivery`.
pub(crate) fn read(bytes: &[u8], delivery: &[(u64, usize)], transport: &Transport) -> Seen {
    let shelf = Rc::new(Shelf::default());
    let arrival = Arrival {
        id: 0,
        origin: Timestamp::ZERO,
        series: SeriesId::default(),
        vantage: Vantage::Client,
        session: 0,
        step: 0,
        steps: 1,
        planned_input_tokens: 0,
        planned_cached_tokens: 0,
        planned_output_tokens: 0,
    };
    let mut out = Listener {
        open: OpenRequest::arrive(shelf.clone(), arrival),
        answer: String::new(),
        reasoning: String::new(),
        tool_names: Vec::new(),
        tool_arguments: String::new(),
        tokens: Vec::new(),
    };
    let options = StreamOptions {
        text: true,
        ..StreamOptions::default()
    };
    let mut from = 0;
    let mut pieces = delivery.iter().map(|&(ms, to)| {
        let piece = &bytes[from..to];
        from = to;
        (Timestamp::from_millis(ms), piece)
    });
    let (end, status, reusable) = match transport {
        Transport::Raw => {
            let mut reader = ExchangeReader::new(options);
            for (at, piece) in &mut pieces {
                reader.on_bytes(at, piece, &mut out);
            }
            let status = reader.head().map(|head| head.status);
            (reader.finish(&mut out), status, reader.is_reusable())
        }
        Transport::Body(head, end) => {
            let mut reader = ReplyReader::new(head.clone(), options);
            for (at, piece) in &mut pieces {
                reader.on_body(at, piece, &mut out);
            }
            (reader.finish(*end, &mut out), Some(head.status), false)
        }
    };
    let last = delivery.last().map_or(0, |last| last.0);
    out.open
        .end(Timestamp::from_millis(last), end.to_end(status, 1));
    Seen {
        end,
        record: shelf.0.take().unwrap(),
        answer: out.answer,
        reasoning: out.reasoning,
        tool_names: out.tool_names,
        tool_arguments: out.tool_arguments,
        tokens: out.tokens,
        reusable,
    }
}

/// The same delivery with further cuts; each piece comes when its last byte did.
pub(crate) fn cut_finer(delivery: &[(u64, usize)], cuts: &[usize]) -> Vec<(u64, usize)> {
    let mut finer = Vec::new();
    let mut from = 0;
    let mut cuts = cuts.to_vec();
    cuts.sort_unstable();
    cuts.dedup();
    for &(ms, to) in delivery {
        let inside = cuts.iter().filter(|&&cut| from < cut && cut < to);
        finer.extend(inside.map(|&cut| (ms, cut)));
        finer.push((ms, to));
        from = to;
    }
    finer
}
