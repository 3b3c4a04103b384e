//! The shell of the page: head, style, sections, figures, script.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use flate2::read::GzDecoder;
use goodput_sweep::RunResult;

use super::text::{escape, paragraph};
use crate::chart::Chart;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");
/// The chart library as a script element, packed.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/charts.html.gz"));

/// A finished page. The chart library, which is most of it, is unpacked as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Html {
    before: String,
    after: String,
}

impl Html {
    /// Writes the page.
    ///
    /// # Errors
    /// What `out` fails with.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(self.before.as_bytes())?;
        io::copy(&mut GzDecoder::new(LIBRARY), out)?;
        out.write_all(self.after.as_bytes())
    }
}

/// The server in a word or two.
fn server(result: &RunResult) -> String {
    let server = &result.holds_for.server;
    if server.simulated.is_some() {
        return "simulated replica".to_owned();
    }
    if server.emulated {
        return "emulated replica".to_owned();
    }
    crate::terminal::engine(server)
}

/// A page under construction.
pub(super) struct Page {
    title: String,
    header: String,
    body: String,
    links: Vec<(&'static str, String)>,
    figures: BTreeMap<String, Chart>,
}

impl Page {
    pub(super) fn new(result: &RunResult) -> Self {
        let model = &result.holds_for.model;
        let what = if result.kind == "bench" {
            "Load test"
        } else {
            "Goodput report"
        };
        let mut facts = vec![model.clone(), server(result)];
        facts.extend(
            result
                .holds_for
                .slos
                .first()
                .map(|slo| format!("SLO {}", slo.name)),
        );
        facts.push(result.started.replace('T', " ").replace('Z', " UTC"));
        facts.retain(|fact| !fact.is_empty());
        Self::headed(what, model, &facts)
    }

    /// A page with these words at its top.
    pub(super) fn headed(what: &str, of: &str, facts: &[String]) -> Self {
        let facts: Vec<String> = facts
            .iter()
            .map(|fact| format!("<span>{}</span>", escape(fact)))
            .collect();
        Self {
            title: escape(&format!("{what}: {of}")),
            header: format!(
                "<p class=\"brand\">{what}</p><p class=\"facts\">{}</p>",
                facts.concat()
            ),
            body: String::new(),
            links: Vec::new(),
            figures: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, html: &str) {
        self.body += html;
    }

    /// A section with a heading; nothing if it would be empty.
    pub(super) fn section(&mut self, id: &'static str, heading: &str, lead: &str, html: &str) {
        if html.is_empty() {
            return;
        }
        self.links.push((id, heading.to_owned()));
        let (heading, lead) = (escape(heading), paragraph("lead", lead));
        self.body +=
            &format!("<section id=\"s-{id}\">\n<h2>{heading}</h2>\n{lead}{html}</section>\n");
    }

    /// A figure drawn once.
    pub(super) fn figure(&mut self, id: &str, chart: Chart, caption: &str) -> String {
        self.figures.insert(id.to_owned(), chart);
        frame(&format!("data-figure=\"{id}\""), caption)
    }

    /// A figure in which the chosen point stands out.
    pub(super) fn spread(&mut self, id: &str, chart: Chart, caption: &str) -> String {
        self.figures.insert(id.to_owned(), chart);
        frame(&format!("data-figure=\"{id}\" data-spread"), caption)
    }

    /// Keeps a figure that belongs to one point, shown while it is chosen.
    pub(super) fn figure_of_point(&mut self, prefix: &str, point: u32, chart: Option<Chart>) {
        if let Some(chart) = chart {
            self.figures.insert(format!("{prefix}{point}"), chart);
        }
    }

    /// Where the figures of [`Page::figure_of_point`] appear; nothing if there is none.
    pub(super) fn per_point(&self, prefix: &str, caption: &str) -> String {
        if !self.figures.keys().any(|id| id.starts_with(prefix)) {
            return String::new();
        }
        frame(&format!("data-each=\"{prefix}\""), caption)
    }

    pub(super) fn finish(self) -> Html {
        // Inside a script element only `</` could end it early.
        let figures = crate::json::line(&self.figures).replace("</", "<\\/");
        let links: Vec<String> = self
            .links
            .iter()
            .map(|(id, heading)| format!("<a href=\"#s-{id}\">{}</a>", escape(heading)))
            .collect();
        let before = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header>{header}</header>\n<main>\n{body}</main>\n<nav>{links}</nav>\n\
             <noscript><p class=\"lead\">The charts need JavaScript; the tables and texts do not.</p></noscript>\n\
             <script type=\"application/json\" id=\"figures\">{figures}</script>\n",
            title = self.title,
            header = self.header,
            body = self.body,
            links = links.concat(),
        );
        let after = format!("\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
        Html { before, after }
    }
}

fn frame(attributes: &str, caption: &str) -> String {
    let caption = escape(caption);
    format!(
        "<figure><figcaption>{caption}</figcaption><div class=\"plot\" role=\"img\" aria-label=\"{caption}\" {attributes}></div></figure>\n"
    )
}
