//! Who waits, and who is next: class by priority, tenant by fairness, request by the class's order.

use std::collections::BTreeSet;

use goodput_record::Timestamp;
use goodput_stats::whole_u64;

use crate::{config::Class, slab::Open};

/// Shares are counted in millionths.
const WHOLE: u64 = 1_000_000;
/// A unit of work on a tenant's counter, so that weights divide it finely.
const SCALE: u64 = 1 << 10;

/// Requests of one tenant in one class, and the work it was sent, for its weight.
#[derive(Clone, Debug, Default)]
struct Flow {
    items: BTreeSet<(u64, u64, u32)>,
    counter: u64,
}

#[derive(Clone, Debug)]
struct ClassQueue {
    share: u64,
    flows: Vec<Flow>,
    /// Flows with requests, by their counter.
    active: BTreeSet<(u64, u32)>,
    /// The same by their number of requests.
    lengths: BTreeSet<(usize, u32)>,
    /// All requests of the class by expiry, then arrival.
    expiries: BTreeSet<(Timestamp, u64, u32)>,
    /// The largest counter that was served: a tenant that comes back starts there, and has saved
    /// nothing up.
    served: u64,
    /// Work that the class is owed by its guaranteed share, in millionths.
    owed: u64,
    work: u64,
}

/// The queue of all classes.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    classes: Vec<ClassQueue>,
    len: u32,
}

impl ClassQueue {
    fn new(class: &Class) -> Self {
        Self {
            share: whole_u64(class.guaranteed_share * WHOLE as f64),
            flows: Vec::new(),
            active: BTreeSet::new(),
            lengths: BTreeSet::new(),
            expiries: BTreeSet::new(),
            served: 0,
            owed: 0,
            work: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// The request that is next in this class.
    fn head(&self) -> Option<u32> {
        let &(_, flow) = self.active.first()?;
        let items = &self.flows[flow as usize].items;
        items.first().map(|item| item.2)
    }

    fn insert(&mut self, flow: u32, open: &Open, slot: u32) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Flow::default());
        }
        let served = self.served;
        let entry = &mut self.flows[flow as usize];
        if entry.items.is_empty() {
            entry.counter = entry.counter.max(served);
            self.active.insert((entry.counter, flow));
        } else {
            self.lengths.remove(&(entry.items.len(), flow));
        }
        entry.items.insert((open.key, open.seq, slot));
        self.lengths.insert((entry.items.len(), flow));
        self.expiries.insert((open.expires, open.seq, slot));
        self.work = self.work.saturating_add(open.work());
    }

    fn remove(&mut self, flow: u32, open: &Open, slot: u32) {
        let entry = &mut self.flows[flow as usize];
        self.lengths.remove(&(entry.items.len(), flow));
        entry.items.remove(&(open.key, open.seq, slot));
        if entry.items.is_empty() {
            self.active.remove(&(entry.counter, flow));
        } else {
            self.lengths.insert((entry.items.len(), flow));
        }
        self.expiries.remove(&(open.expires, open.seq, slot));
        self.work = self.work.saturating_sub(open.work());
        if self.is_empty() {
            self.owed = 0;
        }
    }

    /// Moves a flow's counter on. `sent`: it is being served just now.
    fn charge(&mut self, flow: u32, amount: u64, sent: bool) {
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, Flow::default());
        }
        let entry = &mut self.flows[flow as usize];
        let waits = !entry.items.is_empty();
        if waits {
            self.active.remove(&(entry.counter, flow));
        } else {
            entry.counter = entry.counter.max(self.served);
        }
        if sent {
            self.served = self.served.max(entry.counter);
        }
        entry.counter = entry.counter.saturating_add(amount);
        if waits {
            self.active.insert((entry.counter, flow));
        }
    }
}

impl Queue {
    pub(crate) fn new(classes: &[Class]) -> Self {
        Self {
            classes: classes.iter().map(ClassQueue::new).collect(),
            len: 0,
        }
    }

    /// Requests that wait.
    pub(crate) const fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn len_of(&self, class: u8) -> usize {
        self.classes[usize::from(class)].expiries.len()
    }

    /// Work that waits in this class and the more urgent ones.
    pub(crate) fn work_ahead(&self, class: u8) -> u64 {
        let ahead = self.classes.iter().take(usize::from(class) + 1);
        ahead.fold(0, |sum, c| sum.saturating_add(c.work))
    }

    pub(crate) fn insert(&mut self, flow: u32, open: &Open, slot: u32) {
        self.classes[usize::from(open.class)].insert(flow, open, slot);
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, flow: u32, open: &Open, slot: u32) {
        self.classes[usize::from(open.class)].remove(flow, open, slot);
        self.len -= 1;
    }

    /// The next request: of a class that is owed its share, else of the most urgent one. Classes
    /// for which `allowed` says no wait.
    pub(crate) fn next(
        &self,
        allowed: impl Fn(u8) -> bool,
        work: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut most_urgent = None;
        for (number, class) in (0_u8..).zip(&self.classes) {
            let Some(head) = class.head().filter(|_| allowed(number)) else {
                continue;
            };
            if class.share > 0 && class.owed >= work(head).saturating_mul(WHOLE) {
                return Some(head);
            }
            most_urgent = most_urgent.or(Some(head));
        }
        most_urgent
    }

    /// Work of a class and a flow was sent: the counters move on.
    pub(crate) fn sent(&mut self, class: u8, flow: u32, weight: u32, work: u64) {
        let served = usize::from(class);
        if self.len > 0 {
            for class in self.classes.iter_mut().filter(|c| !c.is_empty()) {
                class.owed = class.owed.saturating_add(work.saturating_mul(class.share));
            }
        }
        let queue = &mut self.classes[served];
        queue.owed = queue.owed.saturating_sub(work.saturating_mul(WHOLE));
        queue.charge(flow, scaled(work, weight), true);
    }

    /// A request came out larger than predicted when it was sent.
    pub(crate) fn correct(&mut self, class: u8, flow: u32, weight: u32, beyond: u64) {
        let queue = &mut self.classes[usize::from(class)];
        queue.charge(flow, scaled(beyond, weight), false);
    }

    /// Who has to go so that a request of this class and flow can wait: the last of the least
    /// urgent class that is less urgent, else the last of the tenant of the same class that has the
    /// most, if that is more than this one would have.
    pub(crate) fn victim(&self, class: u8, flow: u32) -> Option<u32> {
        let own = usize::from(class);
        let lesser = self.classes[own + 1..].iter().rev();
        let last = |queue: &ClassQueue| {
            let &(_, longest) = queue.lengths.last()?;
            let items = &queue.flows[longest as usize].items;
            items.last().map(|item| item.2)
        };
        if let Some(slot) = lesser.filter(|q| !q.is_empty()).find_map(last) {
            return Some(slot);
        }
        self.victim_within(class, flow)
    }

    /// The same within the class alone.
    pub(crate) fn victim_within(&self, class: u8, flow: u32) -> Option<u32> {
        let queue = &self.classes[usize::from(class)];
        let mine = queue.flows.get(flow as usize).map_or(0, |f| f.items.len());
        let &(most, longest) = queue.lengths.last()?;
        let items = &queue.flows[longest as usize].items;
        (longest != flow && most > mine + 1).then(|| items.last().map(|item| item.2))?
    }

    /// The first to expire.
    pub(crate) fn first_expiry(&self) -> Option<(Timestamp, u32)> {
        let firsts = self.classes.iter().filter_map(|c| c.expiries.first());
        firsts.min().map(|&(at, _, slot)| (at, slot))
    }
}

fn scaled(work: u64, weight: u32) -> u64 {
    work.saturating_mul(SCALE) / u64::from(weight.max(1))
}
