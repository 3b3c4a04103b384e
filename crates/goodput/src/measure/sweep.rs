//! `goodput sweep`: closed loop for capacity, open loop for latency.

use std::{num::NonZeroU32, time::Duration};

use goodput_config::{parse_concurrency, parse_rates};
use goodput_workload::Load;

use super::{
    live::minutes,
    plan::{Lengths, ServerKind},
    run::Run,
    search::{search_peak, search_rates},
    server as server_flags,
};
use crate::{exit::Failure, flags::LoadsFlags};

/// The server is warmed up at this many users, unless more are asked for.
const WARM_UP_USERS: u32 = 128;

/// Points that a search takes, about, for the estimate of its length.
const POINTS_OF_A_SEARCH: u32 = 12;

/// What a sweep tries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loads {
    /// Closed loop.
    pub(crate) users: Users,
    /// Open loop.
    pub(crate) rates: Rates,
    /// What the windows of each search may last together, where told.
    budget: Option<Duration>,
}

/// The closed-loop side of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Users {
    /// None.
    Off,
    /// These, in rising order.
    Given(Vec<NonZeroU32>),
    /// Searched: these first, then around the best, up to a largest one.
    Searched {
        /// Tried first; none: doublings from one user.
        first: Vec<NonZeroU32>,
        /// The largest.
        most: NonZeroU32,
    },
}

/// The open-loop side of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rates {
    /// None.
    Off,
    /// These.
    Given(Vec<f64>),
    /// Searched around the best closed-loop points.
    Searched,
}

impl Loads {
    /// From the flags.
    pub(crate) fn new(flags: &LoadsFlags, server: ServerKind) -> Result<Self, Failure> {
        let most = NonZeroU32::new(flags.most).unwrap_or(NonZeroU32::MIN);
        let users = match flags.concurrency.as_str() {
            "none" => Users::Off,
            "auto" => Users::Searched {
                first: Vec::new(),
                most,
            },
            list => {
                let listed =
                    parse_concurrency(list).map_err(|e| list_failure("--concurrency", &e))?;
                if flags.refine {
                    let most = listed.iter().max().copied().unwrap_or(most);
                    Users::Searched {
                        first: listed,
                        most,
                    }
                } else {
                    Users::Given(listed)
                }
            }
        };
        let rates = match flags.rate.as_str() {
            "none" => Rates::Off,
            "auto" => Rates::Searched,
            list => {
                let rates = parse_rates(list).map_err(|e| list_failure("--rate", &e))?;
                rates
                    .iter()
                    .try_for_each(|&rate| super::bench::check_rate(rate))?;
                Rates::Given(rates)
            }
        };
        if users == Users::Off && !matches!(rates, Rates::Given(_)) {
            return Err(Failure::usage("no load is left to try")
                .hint("without closed-loop points, name rates with --rate"));
        }
        let budget = flags.budget.as_deref();
        let budget = budget
            .map(|text| server_flags::duration("--budget", text))
            .transpose()?;
        let loads = Self {
            users,
            rates,
            budget,
        };
        loads.check_budget(server)?;
        Ok(loads)
    }

    /// A search that may measure nothing has no answer, and could not say why.
    fn check_budget(&self, server: ServerKind) -> Result<(), Failure> {
        let lengths = Lengths {
            asked: None,
            server,
        };
        let shortest = lengths.shortest_look();
        match self.budget {
            Some(budget) if self.searches() > 0 && budget < shortest => {
                let message = format!(
                    "--budget {} is too little: no window of a search is shorter than {}",
                    minutes(budget),
                    minutes(shortest)
                );
                let usual = minutes(lengths.budgets()[0]);
                Err(Failure::usage(message).hint(format!(
                    "leave it out, which gives each search at least {usual}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// These and no others.
    pub(crate) fn given(users: Vec<NonZeroU32>, rates: Vec<f64>) -> Self {
        Self {
            users: if users.is_empty() {
                Users::Off
            } else {
                Users::Given(users)
            },
            rates: if rates.is_empty() {
                Rates::Off
            } else {
                Rates::Given(rates)
            },
            budget: None,
        }
    }

    /// The closed loop at which the server is warmed up.
    pub(crate) fn warm_up_users(&self) -> Option<NonZeroU32> {
        match &self.users {
            Users::Off => None,
            Users::Given(users) => users.iter().max().copied(),
            Users::Searched { most, .. } => NonZeroU32::new(WARM_UP_USERS).map(|n| n.min(*most)),
        }
    }

    /// What the windows of the closed-loop search and of an open-loop one may last together.
    pub(crate) fn budgets(&self, run: &Run) -> [Duration; 2] {
        self.budget
            .map_or_else(|| run.lengths.budgets(), |told| [told; 2])
    }

    /// What the sweep costs, in a sentence.
    pub(crate) fn cost(&self, run: &Run) -> String {
        let [closed_budget, open_budget] = self.budgets(run);
        let closed = match &self.users {
            Users::Off => "no closed loop".to_owned(),
            Users::Given(users) => format!("{} closed-loop points", users.len()),
            Users::Searched { .. } => "a closed-loop search".to_owned(),
        };
        let open = match &self.rates {
            Rates::Off => "no open loop".to_owned(),
            Rates::Given(rates) => format!("{} open-loop points", rates.len()),
            Rates::Searched => "an open-loop search".to_owned(),
        };
        let how_long = match run.requests {
            Some(requests) => {
                format!("of {requests} requests a point: how long is the server's to say")
            }
            None if self.searches() == 0 => format!("about {}", minutes(self.length(run))),
            None => format!(
                "at most {} of windows a search, about {} in all",
                minutes(closed_budget.max(open_budget)),
                minutes(self.length(run))
            ),
        };
        format!("cost      {closed} and {open}: {how_long}")
    }

    /// How many searches there are.
    fn searches(&self) -> u32 {
        u32::from(matches!(self.users, Users::Searched { .. }))
            + u32::from(self.rates == Rates::Searched)
    }

    /// What the windows of its searches last together at most.
    fn searched(&self, run: &Run) -> Duration {
        let [closed, open] = self.budgets(run);
        let users = matches!(self.users, Users::Searched { .. });
        let of = |is_it: bool, budget| if is_it { budget } else { Duration::ZERO };
        of(users, closed) + of(self.rates == Rates::Searched, open)
    }

    /// How long it takes, about and at most. `None`: of so many requests, which is the server's to say.
    pub(crate) fn told_length(&self, run: &Run) -> Option<Duration> {
        run.requests.is_none().then(|| self.length(run))
    }

    /// The same of a further boot, which measures the loads that the first one came to.
    pub(crate) fn further_length(&self, run: &Run) -> Option<Duration> {
        let each = run.lengths.closed(run.e2e_p95()) + Self::between(run);
        let points = self.points() + self.searches() * POINTS_OF_A_SEARCH;
        run.requests.is_none().then(|| points * each)
    }

    /// From the end of one window to the beginning of the next.
    fn between(run: &Run) -> Duration {
        Duration::from_secs(2) + 2 * run.e2e_p95()
    }

    /// Loads that were named.
    fn points(&self) -> u32 {
        let users = match &self.users {
            Users::Given(users) => users.len(),
            _ => 0,
        };
        let rates = match &self.rates {
            Rates::Given(rates) => rates.len(),
            _ => 0,
        };
        u32::try_from(users + rates).unwrap_or(u32::MAX)
    }

    /// How long it all takes, about and at most.
    fn length(&self, run: &Run) -> Duration {
        let between = Self::between(run);
        self.points() * (run.lengths.closed(run.e2e_p95()) + between)
            + self.searched(run)
            + self.searches() * POINTS_OF_A_SEARCH * between
    }
}

fn list_failure(flag: &str, problem: &goodput_config::TextError) -> Failure {
    super::text_failure(flag, problem)
}

/// Measures every load. Stops early, keeping what there is, when the run is asked to stop.
pub(crate) async fn run_loads(run: &mut Run, loads: &Loads) -> Result<(), Failure> {
    let [closed_budget, open_budget] = loads.budgets(run);
    let mut first_rate = None;
    match &loads.users {
        Users::Off => {}
        Users::Given(users) => {
            for (&users, left) in users.iter().zip((0..users.len()).rev()) {
                run.sure_point(Load::Closed(users), left).await?;
                if run.stopped() {
                    return Ok(());
                }
            }
        }
        Users::Searched { first, most } => {
            first_rate = search_peak(run, first, *most, closed_budget).await?;
        }
    }
    match &loads.rates {
        Rates::Off => Ok(()),
        _ if run.stopped() => Ok(()),
        Rates::Given(rates) => {
            for (&per_second, left) in rates.iter().zip((0..rates.len()).rev()) {
                run.sure_point(Load::Open { per_second }, left).await?;
                if run.stopped() {
                    return Ok(());
                }
            }
            Ok(())
        }
        Rates::Searched => search_rates(run, first_rate, open_budget).await,
    }
}
