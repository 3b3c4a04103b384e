//! Text inside a page.

/// `text` with the characters that mean something in HTML written out.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// `text` in which a flag such as `--budget` does not break at its hyphens.
pub(super) fn words(text: &str) -> String {
    let word = |word: &str| match word.strip_prefix("--") {
        Some(name) if !name.is_empty() => {
            format!("<span class=\"flag\">{}</span>", escape(word))
        }
        _ => escape(word),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A paragraph; nothing for empty text.
pub(super) fn paragraph(class: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("<p class=\"{class}\">{}</p>\n", words(text))
}

/// `text` as a sentence: a capital first, a full stop last.
pub(super) fn sentence_case(text: &str) -> String {
    let mut characters = text.chars();
    let Some(first) = characters.next() else {
        return String::new();
    };
    let end = if text.ends_with(['.', '!', '?']) {
        ""
    } else {
        "."
    };
    first.to_uppercase().chain(characters).collect::<String>() + end
}

/// A sentence in which what stands between backticks is code.
pub(super) fn prose(text: &str) -> String {
    let text = sentence_case(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return words(&text);
    }
    let part = |(index, part): (usize, &&str)| match index % 2 {
        0 => words(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

/// A list of names and values.
pub(super) fn pairs<'a>(items: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut out = String::from("<dl>\n");
    for (name, value) in items {
        if !value.is_empty() {
            out += &format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(&value));
        }
    }
    out + "</dl>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_named_like_a_script_stays_text() {
        assert_eq!(escape("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
        assert_eq!(paragraph("lead", ""), "");
        assert_eq!(
            words("a -- b: --budget <3m>"),
            "a -- b: <span class=\"flag\">--budget</span> &lt;3m&gt;"
        );
    }

    #[test]
    fn findings_read_as_sentences() {
        assert_eq!(
            prose("`ttft` binds: 5 < 7"),
            "<code>ttft</code> binds: 5 &lt; 7."
        );
        assert_eq!(prose("one ` alone"), "One ` alone.");
        assert_eq!(prose(""), "");
    }
}
