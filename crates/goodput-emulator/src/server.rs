//! The loop: one thread, one poll, one alarm.
//!
//! Tokens come first. Before any socket is read, and again between any two, what the engines have
//! due is written in one pass; then the next socket is read.

use std::{io, net::TcpListener, rc::Rc};

use goodput_perf_model::{Profile, Scheduler};
use goodput_record::Timestamp;
use mio::{Events, Interest, Poll, Token};

use crate::{
    clock::{Alarm, Clock},
    config::{EmulatorConfig, NaturalLength},
    connection::{After, Connection, ReadEnd},
    floor::Floor,
    http::{Reading, read_request},
    limits,
    replicas::Replicas,
    report::EmulatorReport,
    second_hand::SecondHand,
    stop::{Stop, Wish},
};

const LISTENER: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
const STOP: Token = Token(usize::MAX - 2);
/// The most that a pass begins early.
const LEAD_MAX: std::time::Duration = std::time::Duration::from_millis(2);
/// How long no connection is accepted when descriptors have run out.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Why an emulator could not be started or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The poll, the alarm or the listener.
    #[error("the emulator's event loop failed: {0}")]
    Loop(#[from] io::Error),
    /// The profile asks for slots, whose errors and cut answers the emulated HTTP server does not
    /// tell.
    #[error("the emulator serves continuous batching only: a replica with slots can be simulated")]
    Slots,
    /// The KV cache that a fault leaves holds nothing.
    #[error("kv={left} leaves no KV block: raise it")]
    NoKv {
        /// The share that was to be left.
        left: f64,
    },
}

/// Serves an emulated server on `listener` until `stop` is asked for; blocks the thread.
///
/// Token events are written at the instants that the engine says, on the monotonic clock from the
/// moment of this call. The report says how well that was kept.
pub fn serve(
    config: EmulatorConfig,
    listener: TcpListener,
    stop: &Stop,
) -> Result<EmulatorReport, EmulatorError> {
    limits::raise_open_files();
    Server::new(config, listener, stop.clone())?.run()
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) floor: Floor,
    pub(crate) replicas: Replicas,
    pub(crate) profile: Profile,
    pub(crate) context_limit: u32,
    pub(crate) natural: Option<NaturalLength>,
    pub(crate) api_key: Option<String>,
    pub(crate) seed: u64,
    grace: std::time::Duration,
    poll: Poll,
    alarm: Alarm,
    listener: Option<mio::net::TcpListener>,
    /// When connections are to be accepted again without an event.
    accept_again: Timestamp,
    next_keep_alive: Timestamp,
    /// How long before its instant a step's tokens begin to be written: half of what writing them
    /// takes, so that the tokens of many streams lie around the instant and not all behind it.
    lead: std::time::Duration,
    /// When the process that it plays began.
    pub(crate) born: Timestamp,
    /// When it has loaded its model.
    pub(crate) loaded: Timestamp,
    /// When it is to die and come back.
    restart_at: Timestamp,
    /// Whether `/metrics` is of one replica after the other, and how often it was asked.
    pub(crate) metrics_in_turn: bool,
    pub(crate) looks: usize,
    /// When the open streams are cut; set when a stop was asked for.
    deadline: Option<Timestamp>,
    stop: Stop,
    scratch: Vec<u8>,
}

impl Server {
    fn new(
        config: EmulatorConfig,
        listener: TcpListener,
        stop: Stop,
    ) -> Result<Self, EmulatorError> {
        let mut profile = config.profile;
        if profile.scheduler != Scheduler::Continuous {
            return Err(EmulatorError::Slots);
        }
        if let Some(left) = config.faults.kv {
            profile.kv_blocks = share_of(profile.kv_blocks, left);
            if profile.kv_blocks == 0 {
                return Err(EmulatorError::NoKv { left });
            }
        }
        let kv_tokens = u32::try_from(profile.kv_tokens()).unwrap_or(u32::MAX);
        let context_limit = profile.context_limit.min(kv_tokens);
        let clock = Clock::start();
        let poll = Poll::new()?;
        limits::deepen_backlog(&listener);
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        stop.listen(poll.registry(), STOP)?;
        let faults = config.faults;
        let next_keep_alive = match faults.keepalive {
            Some(span) => Timestamp::ZERO.after(span),
            None => Timestamp::FAR_FUTURE,
        };
        let loaded = Timestamp::ZERO.after(faults.loading.unwrap_or_default());
        let restart_at = match faults.restart {
            Some(restart) => Timestamp::ZERO.after(restart.after),
            None => Timestamp::FAR_FUTURE,
        };
        let replicas = config.replicas.get();
        Ok(Self {
            alarm: Alarm::new(clock, poll.registry(), ALARM)?,
            replicas: Replicas::new(&profile, &faults, replicas, context_limit),
            floor: Floor::new(
                clock,
                faults,
                Rc::from(profile.model_id.as_str()),
                usize::from(replicas),
                config.max_backlog,
                SecondHand::start(clock, stop.clone()),
            ),
            profile,
            context_limit,
            natural: config.natural,
            api_key: config.api_key,
            seed: config.seed,
            grace: config.grace,
            poll,
            listener: Some(listener),
            accept_again: Timestamp::FAR_FUTURE,
            next_keep_alive,
            lead: std::time::Duration::ZERO,
            born: Timestamp::ZERO,
            loaded,
            restart_at,
            metrics_in_turn: config.metrics_in_turn,
            looks: 0,
            deadline: None,
            stop,
            scratch: vec![0; 64 * 1024],
        })
    }

    fn run(mut self) -> Result<EmulatorReport, EmulatorError> {
        let mut events = Events::with_capacity(1024);
        loop {
            self.run_due();
            if self.obey() {
                return Ok(EmulatorReport {
                    counts: self.floor.counts,
                    lateness: self.floor.lateness,
                });
            }
            let wait = self.alarm.set(self.next_due())?;
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => polled?,
            }
            for event in &events {
                match event.token() {
                    ALARM | STOP => {}
                    LISTENER => self.accept(),
                    Token(slot) => self.ready(slot, event.is_readable(), event.is_writable()),
                }
                self.run_due();
            }
        }
    }

    /// The instant at which something is to be done without an event.
    fn next_due(&self) -> Timestamp {
        let tokens = self.replicas.next_due().nanos();
        let begin = tokens.saturating_sub(goodput_record::nanos(self.lead));
        Timestamp::from_nanos(begin)
            .min(self.accept_again)
            .min(self.next_keep_alive)
            .min(self.restart_at)
            .min(self.deadline.unwrap_or(Timestamp::FAR_FUTURE))
    }

    /// Does and writes all that is due.
    fn run_due(&mut self) {
        let now = self.floor.clock.now();
        if self.restart_at <= now {
            self.restart(now);
        }
        let horizon = now.after(self.lead);
        if self.replicas.next_due() <= horizon {
            self.replicas.advance(horizon, &mut self.floor);
            self.floor.flush();
            self.learn_lead(self.floor.clock.now().since(now).unwrap_or_default());
        }
        if self.next_keep_alive <= now
            && let Some(span) = self.floor.faults.keepalive
        {
            self.next_keep_alive = self.floor.keep_alive(now, span);
        }
        if self.accept_again <= now {
            self.accept();
        }
        self.settle();
    }

    /// Dies and comes back: connections are cut, engines and counters are new, the model is loaded.
    fn restart(&mut self, now: Timestamp) {
        self.restart_at = Timestamp::FAR_FUTURE;
        self.floor.forget_all();
        self.replicas.restart(&self.profile);
        self.born = now;
        let loading = self.floor.faults.restart.map(|restart| restart.loading);
        self.loaded = now.after(loading.unwrap_or_default());
    }

    /// A pass over the streams took `pass`: the next one begins half of that early. It follows
    /// slowly, so that one pass that was interrupted does not count for much.
    fn learn_lead(&mut self, pass: std::time::Duration) {
        self.lead = ((self.lead * 7 + pass / 2) / 8).min(LEAD_MAX);
    }

    /// Writes, cancels and reads on until nothing is left over.
    fn settle(&mut self) {
        loop {
            self.floor.flush();
            self.cancel_due();
            let ready = self.floor.take_ready();
            if ready.is_empty() && !self.floor.is_dirty() {
                return;
            }
            for slot in ready {
                self.next_request(slot);
            }
        }
    }

    fn cancel_due(&mut self) {
        let cancels = self.floor.take_cancels();
        if cancels.is_empty() {
            return;
        }
        let now = self.floor.clock.now();
        for (replica, index) in cancels {
            self.replicas.cancel(replica, now, index);
        }
    }

    fn accept(&mut self) {
        self.accept_again = Timestamp::FAR_FUTURE;
        let Some(listener) = &self.listener else {
            return;
        };
        loop {
            let accepted = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if limits::is_out_of_files(&error) => {
                    self.floor.counts.accepts_deferred += 1;
                    self.accept_again = self.floor.clock.now().after(ACCEPT_PAUSE);
                    return;
                }
                // A client that left while it waited.
                Err(_) => continue,
            };
            let mut socket = accepted;
            // Small writes must not wait for acknowledgements: 40 ms a token otherwise.
            let nodelay = socket.set_nodelay(true);
            let token = Token(self.floor.connections.next());
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registered = self.poll.registry().register(&mut socket, token, interest);
            if nodelay.and(registered).is_ok() {
                let id = self.floor.counts.connections;
                self.floor.counts.connections += 1;
                let now = self.floor.clock.now();
                self.floor
                    .connections
                    .insert(Connection::new(socket, id, now));
            }
        }
    }

    /// A socket can be read or written.
    fn ready(&mut self, slot: usize, readable: bool, writable: bool) {
        if writable
            && let Some(connection) = self.floor.connections.get(slot)
            && connection.backlog() > 0
        {
            self.floor.touch(slot);
        }
        if readable {
            self.read(slot);
        }
    }

    fn read(&mut self, slot: usize) {
        let Some(connection) = self.floor.connections.get(slot) else {
            return;
        };
        match connection.read(&mut self.scratch) {
            ReadEnd::Open => self.next_request(slot),
            ReadEnd::Gone => {
                self.floor.drop_connection(slot);
                self.cancel_due();
                if self.accept_again != Timestamp::FAR_FUTURE {
                    self.accept();
                }
            }
        }
    }

    /// Takes up the request that `slot` has sent, if it is whole and its turn has come.
    fn next_request(&mut self, slot: usize) {
        let Some(connection) = self.floor.connections.get(slot) else {
            return;
        };
        if connection.exchange.is_some() || connection.after != After::Next {
            return;
        }
        let mut input = std::mem::take(&mut connection.input);
        let used = match read_request(&input) {
            Reading::Partial { wants_continue } => {
                if wants_continue && !connection.continued {
                    connection.continued = true;
                    connection
                        .output
                        .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    self.floor.touch(slot);
                }
                0
            }
            Reading::Bad { status, why } => {
                self.refuse(slot, status, why);
                input.len()
            }
            Reading::Whole { head, body, used } => {
                connection.continued = false;
                // Engines take a request at an instant they have reached.
                let at = self.floor.clock.now();
                self.replicas.advance(at, &mut self.floor);
                self.request(slot, head, &body, at);
                used
            }
        };
        if let Some(connection) = self.floor.connections.get(slot) {
            input.drain(..used);
            connection.input = input;
        }
    }

    /// Whether new requests are refused: from the return of [`Stop::drain`] on.
    pub(crate) fn is_draining(&self) -> bool {
        self.stop.wish() != Wish::Run
    }

    /// Does what is wished from outside; returns whether it is over.
    fn obey(&mut self) -> bool {
        match self.stop.wish() {
            Wish::Run => return false,
            Wish::End => return true,
            Wish::Drain => {}
        }
        let now = self.floor.clock.now();
        let deadline = *self.deadline.get_or_insert(now.after(self.grace));
        if let Some(mut listener) = self.listener.take() {
            // It is closed with this; a poll that knows it still reports nothing.
            let _ = self.poll.registry().deregister(&mut listener);
        }
        let unwritten = self
            .floor
            .connections
            .iter()
            .any(|(_, c)| c.away || c.backlog() > 0);
        now >= deadline || (self.floor.in_flight == 0 && !unwritten)
    }
}

/// `share` of `blocks`, rounded to the nearest.
fn share_of(blocks: u32, share: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of at most 1 keeps it within the range of u32"
    )]
    let left = (f64::from(blocks) * share.clamp(0.0, 1.0)).round() as u32;
    left
}
