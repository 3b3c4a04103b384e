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

/// A paragraph; nothing for empty text.
pub(super) fn paragraph(class: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("<p class=\"{class}\">{}</p>\n", escape(text))
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
    }
}
