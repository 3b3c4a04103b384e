//! What the machine gave the load thread while a point ran: CPU, waiting for it, and who took it.

use std::{fs, time::Duration};

use goodput_record::Timestamp;

use crate::clock::{process_cpu_ns, thread_cpu_ns};

/// A core this full leaves no room for what comes in bursts.
const FULL: f64 = 0.7;
/// Below this share of the time neither waiting nor theft explains a lateness.
const NOTABLE: f64 = 0.01;

/// Shares are of at least this long: over a point of some milliseconds, which wakes up, answers and
/// ends, every thread is busy.
const SHORTEST: Duration = Duration::from_millis(100);

/// Counters of the machine at one instant; two of them make a [`Machine`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    at: Timestamp,
    process_ns: u64,
    thread_ns: u64,
    waited_ns: Option<u64>,
    stolen: Option<u64>,
    throttled_ns: Option<u64>,
}

impl Reading {
    /// Reads them, on the load thread.
    pub(crate) fn take(at: Timestamp) -> Self {
        let file = |path: &str| fs::read_to_string(path).ok();
        Self {
            at,
            process_ns: process_cpu_ns(),
            thread_ns: thread_cpu_ns(),
            waited_ns: file("/proc/thread-self/schedstat").and_then(|text| waited(&text)),
            stolen: file("/proc/stat").and_then(|text| stolen(&text)),
            throttled_ns: file("/sys/fs/cgroup/cpu.stat")
                .or_else(|| file("/sys/fs/cgroup/cpu/cpu.stat"))
                .and_then(|text| throttled(&text)),
        }
    }
}

/// Second field: nanoseconds for which the thread was ready to run and did not.
fn waited(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Eighth figure of the first line: ticks of all cores in which the hypervisor ran something else.
fn stolen(stat: &str) -> Option<u64> {
    let all = stat.lines().find(|line| line.starts_with("cpu "))?;
    all.split_whitespace().nth(8)?.parse().ok()
}

/// The time for which the container's limit held its threads back, by either form of the file.
fn throttled(stat: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    field("throttled_usec ")
        .map(|us| us.saturating_mul(1_000))
        .or_else(|| field("throttled_time "))
}

/// What the load thread had of the machine, as shares of the point's time. What the system does
/// not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Machine {
    /// CPU time of the whole process; 1 is one core.
    pub cpu_share: f64,
    /// CPU time of the load thread.
    pub thread_share: f64,
    /// The load thread was ready to run and had no core (run-queue wait).
    pub waited_share: Option<f64>,
    /// The hypervisor ran something else on a core (steal), summed over the cores; 1 is one core.
    pub stolen_share: Option<f64>,
    /// The container's CPU limit held threads back, summed over its cores; 1 is one core.
    pub throttled_share: Option<f64>,
}

impl Machine {
    /// What happened between two readings.
    pub(crate) fn between(before: &Reading, after: &Reading) -> Self {
        /// Nanoseconds of a tick of `/proc/stat`: `USER_HZ` is 100 wherever Linux runs.
        const TICK_NS: u64 = 10_000_000;
        let wall = after.at.since(before.at).unwrap_or_default();
        let share = |ns: u64| ns as f64 / wall.max(SHORTEST).as_nanos() as f64;
        let grown = |of: fn(&Reading) -> Option<u64>| of(after)?.checked_sub(of(before)?);
        Self {
            cpu_share: share(after.process_ns.saturating_sub(before.process_ns)),
            thread_share: share(after.thread_ns.saturating_sub(before.thread_ns)),
            waited_share: grown(|r| r.waited_ns).map(share),
            stolen_share: grown(|r| r.stolen).map(|ticks| share(ticks * TICK_NS)),
            throttled_share: grown(|r| r.throttled_ns).map(share),
        }
    }

    /// The worse of two load threads of one run.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        let more = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, none) => one.or(none),
        };
        Self {
            cpu_share: self.cpu_share.max(other.cpu_share),
            thread_share: self.thread_share.max(other.thread_share),
            waited_share: more(self.waited_share, other.waited_share),
            stolen_share: more(self.stolen_share, other.stolen_share),
            throttled_share: more(self.throttled_share, other.throttled_share),
        }
    }

    /// Why the load thread was late, with the figure, and what to do.
    #[must_use]
    pub fn cause(&self) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let told = |share: Option<f64>| share.filter(|share| *share > NOTABLE).unwrap_or(0.0);
        let (waited, stolen) = (told(self.waited_share), told(self.stolen_share));
        let throttled = told(self.throttled_share);
        let most = waited.max(stolen).max(throttled);
        // A thread that fills its core also waits for it: the core is what is missing.
        if self.thread_share > FULL && self.thread_share > most {
            return format!(
                "its core was full ({} used): give it more cores (--threads 2), or ask for less load",
                percent(self.thread_share)
            );
        }
        if most == 0.0 {
            return "no cause was found on this machine: measure again, or from a quieter one"
                .to_owned();
        }
        if throttled >= most {
            return format!(
                "the container's CPU limit held it back for {} of the time: raise the limit, or take it away",
                percent(throttled)
            );
        }
        if stolen >= most {
            return format!(
                "the hypervisor took {} of a core for others: measure from a machine with cores of its own",
                percent(stolen)
            );
        }
        format!(
            "goodput waited for a core {} of the time, while it used {}: other programs run there; \
             give it a core of its own (taskset -c N), or stop them",
            percent(waited),
            percent(self.thread_share)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_counters_are_read_where_they_stand() {
        assert_eq!(waited("1200 4975 3\n"), Some(4975));
        assert_eq!(waited(""), None);
        let stat = "cpu  42628 4876 11062 27969 1136 0 57 33 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(stolen(stat), Some(33));
        let two = "nr_throttled 3\nthrottled_usec 1500\n";
        let one = "nr_periods 9\nthrottled_time 1500\n";
        assert_eq!(
            (throttled(two), throttled(one)),
            (Some(1_500_000), Some(1500))
        );
        assert_eq!(throttled("nr_periods 9\n"), None);
    }

    #[test]
    fn what_is_not_told_stays_unknown() {
        let reading = Reading {
            at: Timestamp::ZERO,
            process_ns: 0,
            thread_ns: 0,
            waited_ns: Some(5),
            stolen: None,
            throttled_ns: None,
        };
        let later = Reading {
            at: Timestamp::from_millis(1000),
            process_ns: 400_000_000,
            thread_ns: 250_000_000,
            waited_ns: Some(100_000_005),
            ..reading
        };
        let machine = Machine::between(&reading, &later);
        assert_eq!(machine.waited_share, Some(0.1));
        assert_eq!(
            (machine.stolen_share, machine.throttled_share),
            (None, None)
        );
        assert!((machine.thread_share - 0.25).abs() < 1e-9);
        assert!((machine.cpu_share - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_cause_is_the_largest_of_what_is_known() {
        let quiet = Machine {
            thread_share: 0.1,
            ..Machine::default()
        };
        assert!(quiet.cause().contains("no cause was found"));
        let starved = Machine {
            waited_share: Some(0.4),
            stolen_share: Some(0.02),
            ..quiet
        };
        assert!(starved.cause().contains("40 %") && starved.cause().contains("taskset"));
        let robbed = Machine {
            stolen_share: Some(0.6),
            ..starved
        };
        assert!(robbed.cause().contains("hypervisor took 60 %"));
        let limited = Machine {
            throttled_share: Some(0.7),
            ..robbed
        };
        assert!(limited.cause().contains("container's CPU limit"));
        let full = Machine {
            thread_share: 0.95,
            ..starved
        };
        assert!(full.cause().contains("--threads"), "{}", full.cause());
    }

    #[test]
    fn a_point_of_no_length_is_no_full_core() {
        let now = Reading::take(Timestamp::ZERO);
        let later = Reading {
            at: Timestamp::from_nanos(900_000),
            process_ns: now.process_ns + 900_000,
            thread_ns: now.thread_ns + 900_000,
            ..now
        };
        assert!(Machine::between(&now, &later).thread_share < 0.01);
    }

    #[test]
    fn this_thread_is_seen_to_work() {
        let before = Reading::take(Timestamp::ZERO);
        let mut sum = 0_u64;
        while thread_cpu_ns() < before.thread_ns + 20_000_000 {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        let after = Reading::take(Timestamp::from_millis(100));
        let machine = Machine::between(&before, &after);
        assert!(machine.thread_share >= 0.2, "{machine:?}");
        assert!(
            machine.cpu_share >= machine.thread_share - 0.01,
            "{machine:?}"
        );
    }
}
