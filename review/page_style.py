"""The style sheet of a report: light and dark, on a telephone, and on two printed pages."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """\
:root {
  color-scheme: light dark;
  --page: #fff; --raised: #f6f7f9; --text: #15181b; --quiet: #5a626b; --line: #e3e6ea;
  --accent: #0b62b8; --state: #0d4f7a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #1a1b1e; --raised: #222428; --text: #f0f4f9; --quiet: #a3abb5; --line: #33363c;
    --accent: #6db3f8; --state: #52acf6;
  }
}
.move { --state: light-dark(#8a5603, #f8be15) }
.infeasible { --state: light-dark(#90210d, #ff8a52) }
.no-recommendation { --state: var(--text) }
*, *::before, *::after { box-sizing: border-box }
body {
  margin: 0; background: var(--page); color: var(--text); overflow-wrap: break-word;
  font: 400 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 48px }
h1, h2, p, ul, ol, dl, dd, figure { margin: 0 }
header { border-left: 4px solid var(--state); padding-left: 20px }
h1 { font-size: 26px; line-height: 1.3; font-weight: 650; letter-spacing: -0.015em; margin: 2px 0 8px }
h2 { font-size: 17px; font-weight: 650; letter-spacing: -0.01em; margin-bottom: 6px }
.title, .small, caption, dt { color: var(--quiet); font-size: 13px }
.kind { color: var(--state); font-weight: 650; margin-top: 8px }
ul, ol { padding-left: 20px }
header ul { list-style: none; padding: 0 }
dl { display: flex; flex-wrap: wrap; gap: 8px 32px; margin-top: 16px }
dd { font-weight: 600 }
section { margin-top: 28px; padding-top: 20px; border-top: 1px solid var(--line) }
section p { max-width: 76ch }
section p + p, section ul + p, section ol + p, .small { margin-top: 4px }
table { border-collapse: collapse; width: 100%; margin-top: 8px }
caption { text-align: left; padding-bottom: 2px }
th, td { text-align: left; padding: 5px 12px 5px 0; vertical-align: top; border-bottom: 1px solid var(--line) }
thead th { color: var(--quiet); font-size: 13px; font-weight: 500 }
tbody th { font-weight: 600; white-space: nowrap }
.number { text-align: right; white-space: nowrap }
tr.strong { background: var(--raised) }
tr.strong th { box-shadow: inset 3px 0 var(--accent); padding-left: 10px; color: var(--accent) }
figure { max-width: 720px; margin: 16px 0 4px }
svg { display: block; width: 100%; height: auto }
svg text { font-size: 12px; fill: var(--quiet) }
svg line { stroke: var(--quiet); stroke-width: 2 }
svg circle { fill: var(--quiet) }
svg .strong line { stroke: var(--accent); stroke-width: 3 }
svg .strong circle { fill: var(--accent) }
svg .strong text { fill: var(--text); font-weight: 650 }
svg .target { stroke: var(--text); stroke-width: 1; stroke-dasharray: 4 3 }
@media (max-width: 720px) {
  main { padding: 16px 16px 32px }
  header { padding-left: 12px }
  h1 { font-size: 21px }
  dl { display: grid; gap: 8px 20px; grid-template-columns: 1fr 1fr }
  thead { position: absolute; clip-path: inset(50%); height: 1px; overflow: hidden; width: 1px }
  table, tbody, tr, caption { display: block }
  tr { padding: 8px 0; border-bottom: 1px solid var(--line) }
  tr.strong { padding: 8px }
  tr.strong th { box-shadow: none; padding-left: 0 }
  th, td { display: flex; gap: 16px; justify-content: space-between; border: 0; padding: 1px 0 }
  tbody th { white-space: normal }
  .number { white-space: normal }
  figure { display: none }
  td { text-align: right }
  td::before { content: attr(data-label); color: var(--quiet); text-align: left; flex: none }
  td[data-label=""]::before { content: none }
  td[data-label=""] { justify-content: flex-start; text-align: left }
  td[data-label="Why"], td[data-label="Says"], td[data-label="Evidence"], td[data-label="Against"] {
    display: block; text-align: left;
  }
  td[data-label="Why"]::before, td[data-label="Says"]::before { content: none }
  td[data-label="Evidence"]::before, td[data-label="Against"]::before { content: attr(data-label) ": " }
}
@media print {
  :root { --page: #fff; --raised: #f2f3f5; --text: #000; --quiet: #444; --line: #ccc; --accent: #0b62b8 }
  @page { size: A4; margin: 12mm }
  body { font-size: 7.5pt; line-height: 1.25 }
  main { padding: 0; max-width: none }
  h1 { font-size: 14pt } h2 { font-size: 9.5pt; margin-bottom: 1pt }
  .title, .small, caption, dt, thead th, svg text { font-size: 7pt }
  section { margin-top: 4pt; padding-top: 3pt }
  th, td { padding: 0.3pt 6pt 0.3pt 0 }
  dl { gap: 2pt 18pt; margin-top: 4pt }
  figure { max-width: 250pt; margin: 3pt 0 }
  tr, figure, header { break-inside: avoid } h2 { break-after: avoid }
}
"""
