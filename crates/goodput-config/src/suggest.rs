//! Guesses at what a misspelt word was meant to be.

/// The one of `known` that `word` most likely meant, or `None` if nothing is near.
///
/// Case, `-` and `_` do not count. Near means at most one slip (a wrong, missing, extra or swapped
/// letter) per three letters.
#[must_use]
pub fn suggest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    known
        .iter()
        .map(|name| (strsim::osa_distance(&word, &plain(name)), *name))
        .filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// "one of `a`, `b`, `c`", for the part of a message that says what was expected.
#[must_use]
pub fn known_names(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [one] => one.clone(),
        many => format!("one of {}", many.join(", ")),
    }
}
