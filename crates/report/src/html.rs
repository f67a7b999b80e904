//! One HTML page that holds a report: headings, tables, plots, nothing loaded from anywhere.
//!
//! Light and dark follow the reader's system through CSS variables. Plots are side by side if there
//! is room, else below each other. A wide table scrolls inside its own frame, so the page itself
//! never does.

use crate::plot::escape;
use std::fmt::Write as _;

/// A page under construction.
pub struct Page {
    /// The heading, or the quantity shown.
    pub title: String,
    /// One sentence under the title.
    pub lead: String,
    /// The parts, from top to bottom.
    pub sections: Vec<Section>,
    /// Names and values at the foot: machine, build and settings.
    pub facts: Vec<(String, String)>,
}

/// A part of a page, in the order of its fields.
#[derive(Default)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Paragraphs of plain text.
    pub paragraphs: Vec<String>,
    /// Captions and SVG elements.
    pub plots: Vec<(String, String)>,
    /// Header cells, then rows; the first column is text, the others are numbers.
    pub table: Option<NumberTable>,
    /// A word or two next to the heading.
    pub badge: Option<(Tone, String)>,
    /// Tables of words, below the plots.
    pub words: Vec<WordTable>,
    /// Collapsed until the reader clicks on its summary.
    pub details: Option<Details>,
}

/// A table, with plots above it, that a click on its summary opens.
pub struct Details {
    /// The line shown while it is closed.
    pub summary: String,
    /// Captions and SVG elements.
    pub plots: Vec<(String, String)>,
    /// The table below the plots.
    pub table: NumberTable,
}

/// Header cells, then rows.
pub type NumberTable = (Vec<String>, Vec<Vec<String>>);

/// Tone of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Neither.
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
}

/// A table whose cells are sentences. The last cell of a row has the row's tone.
pub struct WordTable {
    /// The header cells.
    pub header: Vec<String>,
    /// The rows, with as many cells each.
    pub rows: Vec<(Tone, Vec<String>)>,
}

impl Tone {
    fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}

impl Page {
    /// The whole page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        let title = escape(&self.title);
        let _ = write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header><h1>{title}</h1><p>{}</p></header>\n",
            escape(&self.lead)
        );
        for section in &self.sections {
            section.write(&mut page);
        }
        page.push_str("<footer><dl>");
        for (name, value) in &self.facts {
            let _ = write!(
                page,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(name),
                escape(value)
            );
        }
        page.push_str("</dl></footer>\n</main>\n</body>\n</html>\n");
        page
    }
}

impl Section {
    fn write(&self, page: &mut String) {
        let _ = write!(page, "<section>\n<h2>{}", escape(&self.heading));
        if let Some((tone, text)) = &self.badge {
            let class = tone.class();
            let _ = write!(
                page,
                " <span class=\"badge {class}\">{}</span>",
                escape(text)
            );
        }
        page.push_str("</h2>\n");
        for paragraph in &self.paragraphs {
            let _ = writeln!(page, "<p>{}</p>", escape(paragraph));
        }
        write_plots(page, &self.plots);
        if let Some(table) = &self.table {
            write_numbers(page, table);
        }
        for table in &self.words {
            table.write(page);
        }
        if let Some(details) = &self.details {
            let summary = escape(&details.summary);
            let _ = writeln!(page, "<details><summary>{summary}</summary>");
            write_plots(page, &details.plots);
            write_numbers(page, &details.table);
            page.push_str("</details>\n");
        }
        page.push_str("</section>\n");
    }
}

impl WordTable {
    fn write(&self, page: &mut String) {
        page.push_str("<div class=\"scroll\" tabindex=\"0\"><table class=\"words\">");
        write_header(page, &self.header);
        for (tone, row) in &self.rows {
            let _ = write!(page, "<tr class=\"{}\">", tone.class());
            write_cells(page, &self.header, row);
        }
        page.push_str("</tbody></table></div>\n");
    }
}

fn write_plots(page: &mut String, plots: &[(String, String)]) {
    if plots.is_empty() {
        return;
    }
    page.push_str("<div class=\"plots\">\n");
    for (caption, svg) in plots {
        let _ = writeln!(
            page,
            "<figure><figcaption>{}</figcaption>{svg}</figure>",
            escape(caption)
        );
    }
    page.push_str("</div>\n");
}

fn write_numbers(page: &mut String, (header, rows): &NumberTable) {
    page.push_str("<div class=\"scroll\" tabindex=\"0\"><table>");
    write_header(page, header);
    for row in rows {
        page.push_str("<tr>");
        write_cells(page, header, row);
    }
    page.push_str("</tbody></table></div>\n");
}

fn write_header(page: &mut String, header: &[String]) {
    page.push_str("<thead><tr>");
    for cell in header {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(cell));
    }
    page.push_str("</tr></thead><tbody>");
}

fn write_cells(page: &mut String, header: &[String], row: &[String]) {
    for (index, cell) in row.iter().enumerate() {
        let cell = escape(cell);
        let _ = if index == 0 {
            write!(page, "<th scope=\"row\">{cell}</th>")
        } else {
            // A narrow screen shows each row as a list of named values.
            let name = header.get(index).map_or("", String::as_str);
            write!(page, "<td data-name=\"{}\">{cell}</td>", escape(name))
        };
    }
    page.push_str("</tr>");
}

const STYLE: &str = r"
:root {
  --page: #f6f7f9; --card: #ffffff; --ink: #16202b; --soft: #5a6775; --rule: #dfe4ea;
  --c0: #2563a8; --c1: #d9780f; --c2: #14866d; --c3: #a23b72; --c4: #6a54c9; --c5: #7a6a1f;
  --good: #17703f; --bad: #a8430a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #10151b; --card: #18202a; --ink: #e8edf2; --soft: #9eacba; --rule: #2b3642;
    --c0: #64a8f0; --c1: #f2a24a; --c2: #45c3a4; --c3: #e183b4; --c4: #a897f5; --c5: #d0be62;
    --good: #63d093; --bad: #f5a06a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 28px 16px 40px; }
h1 { font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.015em; }
h2 { font-size: 1.15rem; margin: 34px 0 8px; }
header p { color: var(--soft); margin: 0; max-width: 75ch; }
section p { max-width: 75ch; margin: 0 0 12px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--rule); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { padding: 8px 10px; text-align: right; white-space: nowrap; border-top: 1px solid var(--rule); }
thead th { color: var(--soft); font-weight: 600; border-top: 0; }
th:first-child { text-align: left; font-weight: 600; position: sticky; left: 0; background: var(--card); }
.badge {
  display: inline-block; font-size: 0.78rem; font-weight: 600; padding: 1px 10px; margin-left: 4px;
  border: 1px solid currentColor; border-radius: 99px; color: var(--soft); vertical-align: 0.1em;
}
.badge.good, tr.good td:last-child { color: var(--good); }
.badge.bad, tr.bad td:last-child { color: var(--bad); }
.scroll + .scroll { margin-top: 16px; }
.words th, .words td { text-align: left; white-space: normal; vertical-align: top; }
.words th:first-child { min-width: 7.5em; }
details { margin-top: 12px; }
summary { cursor: pointer; color: var(--soft); padding: 4px 0; }
.plots {
  display: grid; gap: 16px; margin: 16px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 350px), 1fr));
}
figure { max-width: 600px; margin: 0; padding: 16px; background: var(--card); border: 1px solid var(--rule); border-radius: 10px; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 10px; }
svg { display: block; width: 100%; max-width: 480px; height: auto; }
svg text { font-size: 11px; fill: var(--ink); }
svg .group { font-weight: 600; }
svg .tick, svg .axis, svg .none, svg .name { fill: var(--soft); }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .interval { stroke: var(--ink); stroke-width: 1.4; stroke-linecap: round; opacity: 0.75; }
svg .band { fill: var(--c2); opacity: 0.22; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); }
.f3 { fill: var(--c3); } .f4 { fill: var(--c4); } .f5 { fill: var(--c5); }
.l0 { stroke: var(--c0); } .l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); }
.l3 { stroke: var(--c3); } .l4 { stroke: var(--c4); } .l5 { stroke: var(--c5); }
svg .d1 { stroke-dasharray: 6 4; } svg .d2 { stroke-dasharray: 1.5 4; }
footer { margin-top: 34px; border-top: 1px solid var(--rule); padding-top: 16px; color: var(--soft); font-size: 0.88rem; }
dl { margin: 0; display: grid; gap: 6px 24px; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); }
dl div { display: flex; gap: 10px; min-width: 0; }
dt { flex: 0 0 84px; }
dd { margin: 0; color: var(--ink); overflow-wrap: anywhere; }
@media (max-width: 700px) {
  thead { display: none; }
  tr { display: block; padding: 8px 0; border-top: 1px solid var(--rule); }
  tr:first-child { border-top: 0; }
  tbody th, td { display: flex; justify-content: space-between; gap: 16px; border-top: 0; padding: 3px 14px; }
  td::before { content: attr(data-name); color: var(--soft); }
  td { white-space: normal; text-align: right; }
  .words td { display: block; }
  .words td::before { display: block; font-size: 0.82rem; }
  .words tbody th, .words td { text-align: left; }
}
@media print { figure, .scroll { break-inside: avoid; } }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        let page = Page {
            title: "A & B".into(),
            lead: "x < y".into(),
            sections: vec![Section {
                heading: "Table".into(),
                table: Some((vec!["method".into()], vec![vec!["inp".into()]])),
                ..Section::default()
            }],
            facts: vec![("commit".into(), "unknown".into())],
        };
        let html = page.html();
        assert!(html.contains("<title>A &amp; B</title>") && html.contains("x &lt; y"));
        for loader in ["src=", "href=", "url(", "@import"] {
            assert!(!html.contains(loader), "{loader}");
        }
    }
}
