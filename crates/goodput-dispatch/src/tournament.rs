//! The smallest of a fixed set of keys, one of which changes at a time.

/// A tournament tree: the place of the smallest key is known at once, a change costs as many
/// comparisons as the set has doublings. Of equal keys the lower place wins.
#[derive(Clone, Debug, Default)]
pub struct Tournament<K> {
    /// As many as the tree has leaves.
    keys: Vec<Option<K>>,
    /// Node 1 is the root, node `i` has the children `2 i` and `2 i + 1`. Where neither has a key, any
    /// place below stands there.
    winners: Vec<u32>,
}

impl<K: Ord + Copy> Tournament<K> {
    /// No place at all.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            keys: Vec::new(),
            winners: Vec::new(),
        }
    }

    /// The smallest key and its place; `None` where no place has one.
    #[must_use]
    pub fn first(&self) -> Option<(usize, K)> {
        let place = *self.winners.get(1)? as usize;
        Some((place, self.key(place)?))
    }

    /// The key of a place.
    #[must_use]
    pub fn key(&self, place: usize) -> Option<K> {
        *self.keys.get(place)?
    }

    /// Gives a place another key, or none. Places that were never heard of come into being.
    pub fn set(&mut self, place: usize, key: Option<K>) {
        if place >= self.keys.len() {
            self.grow(place + 1);
        }
        self.keys[place] = key;
        let leaves = self.winners.len();
        let own = candidate(place);
        let (mut winner, mut best, mut child) = (own, key, leaves + place);
        while child > 1 {
            let rival = self.candidate(child ^ 1);
            let its = self.keys[rival as usize];
            if is_before((its, rival), (best, winner)) {
                (winner, best) = (rival, its);
            }
            child /= 2;
            // Who neither was nor is the winner here changes nothing further up.
            let before = std::mem::replace(&mut self.winners[child], winner);
            if before == winner && before != own {
                break;
            }
        }
    }

    /// Makes room for `places`; the tree is built anew.
    fn grow(&mut self, places: usize) {
        let leaves = places.next_power_of_two().max(2);
        self.keys.resize(leaves, None);
        self.winners = vec![0; leaves];
        for node in (1..leaves).rev() {
            let (left, right) = (self.candidate(2 * node), self.candidate(2 * node + 1));
            let key = |place: u32| (self.keys[place as usize], place);
            let is_right = is_before(key(right), key(left));
            self.winners[node] = if is_right { right } else { left };
        }
    }

    fn candidate(&self, child: usize) -> u32 {
        let leaves = self.winners.len();
        if child < leaves {
            self.winners[child]
        } else {
            candidate(child - leaves)
        }
    }
}

/// Whether the first comes before the second: by key, then by place; whoever has none comes last.
fn is_before<K: Ord>(one: (Option<K>, u32), other: (Option<K>, u32)) -> bool {
    match (one.0, other.0) {
        (Some(a), Some(b)) => a < b || (a == b && one.1 < other.1),
        (a, None) => a.is_some(),
        (None, Some(_)) => false,
    }
}

fn candidate(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
