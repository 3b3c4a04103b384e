//! All formulas on one load, and what each is worth for a continuous-batching server.

use std::num::NonZeroU32;

use super::{Lever, ManyServers, QueueError, SingleServer, variance_lever};

/// One load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Mean seconds of service of one request, `1/mu`.
    pub service_s: f64,
    /// Servers, each working on one request at a time.
    pub servers: NonZeroU32,
    /// Squared coefficient of variation of gaps between arrivals: 1 for Poisson.
    pub scv_arrivals: f64,
    /// Squared coefficient of variation of service times: 1 for exponential, 0 for equal ones.
    pub scv_service: f64,
    /// By which share the variance lever cuts, above 0 and below 1.
    pub cut: f64,
}

/// A formula for the mean wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    /// M/M/1.
    Mm1,
    /// M/D/1.
    Md1,
    /// M/G/1 by Pollaczek and Khinchine.
    PollaczekKhinchine,
    /// G/G/1 by Kingman.
    Kingman,
    /// M/M/k by Erlang's C.
    ErlangC,
    /// M/D/k by Cosmetatos.
    Cosmetatos,
    /// M/G/k by Lee and Longton.
    LeeLongton,
    /// M/G/k by Kimura.
    Kimura,
    /// G/G/k by Allen and Cunneen.
    AllenCunneen,
    /// G/G/k by Sakasegawa.
    Sakasegawa,
}

impl Formula {
    /// Kendall's letters, and who found it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mm1 => "M/M/1",
            Self::Md1 => "M/D/1",
            Self::PollaczekKhinchine => "M/G/1 Pollaczek-Khinchine",
            Self::Kingman => "G/G/1 Kingman",
            Self::ErlangC => "M/M/k Erlang C",
            Self::Cosmetatos => "M/D/k Cosmetatos",
            Self::LeeLongton => "M/G/k Lee-Longton",
            Self::Kimura => "M/G/k Kimura",
            Self::AllenCunneen => "G/G/k Allen-Cunneen",
            Self::Sakasegawa => "G/G/k Sakasegawa",
        }
    }

    /// Whether its mean is exact for what it assumes.
    #[must_use]
    pub const fn mean_is_exact(self) -> bool {
        matches!(
            self,
            Self::Mm1 | Self::Md1 | Self::PollaczekKhinchine | Self::ErlangC
        )
    }

    /// Whether its quantiles are exact for what it assumes.
    #[must_use]
    pub const fn quantiles_are_exact(self) -> bool {
        matches!(self, Self::Mm1 | Self::ErlangC)
    }

    /// What it means for a server that batches continuously.
    #[must_use]
    pub const fn for_batching(self) -> &'static str {
        match self {
            Self::Mm1 => {
                "The engine as one fast server: put in one over its peak request rate. Near saturation its wait has the right order; below it the batch has free places and requests hardly wait."
            }
            Self::Md1 => {
                "All requests alike, as in a benchmark of fixed lengths: the shortest wait Poisson arrivals allow, and production's is longer."
            }
            Self::PollaczekKhinchine => {
                "Exact where requests really are served one by one: prefill-only work (embeddings, a first token), one batch of one. Take the SCV from the lengths."
            }
            Self::Kingman => {
                "Adds bursts of arrivals: take the SCV of gaps from a trace. Azure's conversations have 1.2, its code completions 173."
            }
            Self::ErlangC => {
                "A server is a place in the batch (max_num_seqs, or what the KV cache holds), its service a request's whole stay at the batch that runs. It says when requests begin to wait for a place: the knee."
            }
            Self::Cosmetatos => "Places as servers and answers all equally long: the best case.",
            Self::LeeLongton | Self::Kimura => {
                "Places as servers, answers of your own spread. Two moments do not know heavy tails; the truth is longer there."
            }
            Self::AllenCunneen => {
                "The same with bursts: what to plan with, if one formula must do."
            }
            Self::Sakasegawa => {
                "The same without Erlang's C, for the back of an envelope; weakest at low load."
            }
        }
    }
}

/// What one formula says of the wait before service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FormulaRow {
    /// Which one.
    pub formula: Formula,
    /// The mean in seconds.
    pub wait_s: f64,
    /// The median in seconds.
    pub wait_p50_s: f64,
    /// What 99 % do not exceed, in seconds.
    pub wait_p99_s: f64,
}

/// The wait at one utilisation, by Allen and Cunneen (Kingman, for one server).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LadderRow {
    /// Share of time a server is busy.
    pub utilization: f64,
    /// Requests per second at which it is.
    pub rate_per_s: f64,
    /// The mean in seconds.
    pub wait_s: f64,
    /// The mean in service times.
    pub service_times: f64,
    /// What 99 % do not exceed, in seconds.
    pub wait_p99_s: f64,
}

/// All there is to say of one load.
#[derive(Clone, Debug, PartialEq)]
pub struct Overview {
    /// The load.
    pub question: Question,
    /// Mean number of busy servers.
    pub erlangs: f64,
    /// Share of time a server is busy.
    pub utilization: f64,
    /// Share of requests that wait at all, by Erlang's C.
    pub delayed: f64,
    /// What the formulas say.
    pub formulas: Vec<FormulaRow>,
    /// The wait at other utilisations.
    pub ladder: Vec<LadderRow>,
    /// Less variance against a smaller mean.
    pub lever: Lever,
}

/// The utilisations of the ladder: the essay's three, and where interactive pools should be.
const LADDER: [f64; 7] = [0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95];

/// Asks all formulas. An error says that there is no steady state, or which number cannot be.
pub fn overview(question: &Question) -> Result<Overview, QueueError> {
    let load = question.load(question.rate_per_s)?;
    let rows = if question.servers == NonZeroU32::MIN {
        question.single()?
    } else {
        question.many(&load)?
    };
    let rung = |utilization: f64| -> Result<LadderRow, QueueError> {
        let servers = f64::from(question.servers.get());
        let rate_per_s = utilization * servers / question.service_s;
        let load = question.load(rate_per_s)?;
        let wait_s = load.allen_cunneen_wait_s(question.scv_arrivals, question.scv_service)?;
        Ok(LadderRow {
            utilization,
            rate_per_s,
            wait_s,
            service_times: wait_s / question.service_s,
            wait_p99_s: load.wait_quantile_s(wait_s, 0.99)?,
        })
    };
    let formulas = rows.into_iter().map(|(formula, wait_s)| {
        Ok(FormulaRow {
            formula,
            wait_s,
            wait_p50_s: load.wait_quantile_s(wait_s, 0.5)?,
            wait_p99_s: load.wait_quantile_s(wait_s, 0.99)?,
        })
    });
    Ok(Overview {
        question: *question,
        erlangs: load.erlangs(),
        utilization: load.utilization(),
        delayed: load.delayed(),
        formulas: formulas.collect::<Result<_, QueueError>>()?,
        ladder: LADDER.into_iter().map(rung).collect::<Result<_, _>>()?,
        lever: variance_lever(load, question.scv_service, question.cut)?,
    })
}

impl Question {
    fn load(&self, rate_per_s: f64) -> Result<ManyServers, QueueError> {
        ManyServers::new(rate_per_s, self.service_s, self.servers)
    }

    fn single(&self) -> Result<Vec<(Formula, f64)>, QueueError> {
        let load = SingleServer::new(self.rate_per_s, self.service_s)?;
        let general = load.mg1_wait_s(self.scv_service)?;
        let bursts = load.gg1_wait_s(self.scv_arrivals, self.scv_service)?;
        Ok(vec![
            (Formula::Mm1, load.mm1_wait_s()),
            (Formula::Md1, load.md1_wait_s()),
            (Formula::PollaczekKhinchine, general),
            (Formula::Kingman, bursts),
        ])
    }

    fn many(&self, load: &ManyServers) -> Result<Vec<(Formula, f64)>, QueueError> {
        let (arrivals, service) = (self.scv_arrivals, self.scv_service);
        let mut rows = vec![
            (Formula::ErlangC, load.mmk_wait_s()),
            (Formula::Cosmetatos, load.mdk_wait_s()),
            (Formula::LeeLongton, load.lee_longton_wait_s(service)?),
        ];
        if service <= 1.0 {
            rows.push((Formula::Kimura, load.kimura_wait_s(service)?));
        }
        let allen = load.allen_cunneen_wait_s(arrivals, service)?;
        rows.push((Formula::AllenCunneen, allen));
        let sakasegawa = load.sakasegawa_wait_s(arrivals, service)?;
        rows.push((Formula::Sakasegawa, sakasegawa));
        Ok(rows)
    }
}
