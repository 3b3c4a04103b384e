//! A short list, mostly of one.

/// A list of which the last is at hand; where it is longer, the others lie elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Few<T> {
    last: Option<T>,
    others: Vec<T>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self {
            last: None,
            others: Vec::new(),
        }
    }
}

impl<T> Few<T> {
    #[inline]
    pub(super) const fn last(&self) -> Option<&T> {
        self.last.as_ref()
    }

    pub(super) fn first_mut(&mut self) -> Option<&mut T> {
        self.others.first_mut().or(self.last.as_mut())
    }

    pub(super) fn second(&self) -> Option<&T> {
        match self.others.len() {
            0 => None,
            1 => self.last.as_ref(),
            _ => self.others.get(1),
        }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if let Some(before) = self.last.replace(item) {
            self.others.push(before);
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        std::mem::replace(&mut self.last, self.others.pop())
    }

    pub(super) fn remove_first(&mut self) {
        if self.others.is_empty() {
            self.last = None;
        } else {
            self.others.remove(0);
        }
    }

    /// Puts an item behind all for which `is_before` holds, which are the first.
    pub(super) fn insert(&mut self, is_before: impl Fn(&T) -> bool, item: T) {
        if self.last.as_ref().is_none_or(&is_before) {
            return self.push(item);
        }
        let place = self.others.partition_point(is_before);
        self.others.insert(place, item);
    }

    #[inline]
    pub(super) fn find_mut(&mut self, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        if self.last.as_ref().is_some_and(&is_it) {
            return self.last.as_mut();
        }
        self.others.iter_mut().find(|item| is_it(item))
    }

    /// Takes out all for which `is_it` holds.
    pub(super) fn remove(&mut self, is_it: impl Fn(&T) -> bool) {
        self.others.retain(|item| !is_it(item));
        if self.last.as_ref().is_some_and(&is_it) {
            self.last = self.others.pop();
        }
    }

    pub(super) fn any(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.last.iter().chain(&self.others).any(is_it)
    }

    /// Shows each, from the last to the first.
    #[cfg(test)]
    pub(super) fn each_from_last(&self, show: impl FnMut(&T)) {
        self.last
            .iter()
            .chain(self.others.iter().rev())
            .for_each(show);
    }
}
