"""What all pages share: the head, with a style sheet and a policy that forbids scripts and requests."""

from __future__ import annotations

from lakekeeper.core.text.markup import Markup, joined, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_CSS = """
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--ink:#1b2129;--soft:#586374;--rule:#dfe3e8;
--now:#b9471a;--then:#1f6feb;--fill:#b9471a33;--fill2:#1f6feb40}
@media(prefers-color-scheme:dark){:root{--page:#0e1116;--card:#171b22;--ink:#e5e9ef;--soft:#9aa6b5;--rule:#2b323c;
--now:#f0883e;--then:#58a6ff;--fill:#f0883e38;--fill2:#58a6ff4d}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:68rem;margin:auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.25rem;margin:0;overflow-wrap:anywhere}
h3{font-size:.8rem;margin:2rem 0 .5rem;text-transform:uppercase;letter-spacing:.08em;color:var(--soft)}
a{color:var(--then)}code{font-size:.9em}
.facts,.note,.level{color:var(--soft);margin:.2rem 0;font-size:.875rem;overflow-wrap:anywhere}
.error{color:var(--now)}
section{background:var(--card);border:1px solid var(--rule);border-radius:.6rem;padding:1.25rem;margin-top:1.25rem}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.2rem,1fr));gap:1rem;margin:1.1rem 0 0}
dl:first-child{margin-top:0}
dl div{border-left:3px solid var(--rule);padding-left:.7rem}
dt,dd:last-child{color:var(--soft);font-size:.8rem}dd{margin:0}
dd:nth-child(2){font-size:1.25rem;font-weight:600;font-variant-numeric:tabular-nums;line-height:1.3}
figure{margin:.6rem 0 1.5rem;min-width:0}
figcaption{font-weight:600;margin-bottom:.4rem;display:flex;flex-wrap:wrap;gap:0 .7rem;
align-items:baseline}
figure:last-child,section figure:last-of-type{margin-bottom:0}
figcaption b{font-weight:400;font-size:.8rem;white-space:nowrap}
figcaption b::before{content:"";display:inline-block;width:.7rem;height:.7rem;border-radius:2px;margin-right:.3rem}
.now::before,b.merge::before{background:var(--now)}.then::before,b.leave::before{background:var(--then)}
.plot{display:grid;grid-template-columns:4.3rem 1fr;gap:0 .5rem;font-size:.75rem;color:var(--soft);
font-variant-numeric:tabular-nums}
.plot svg{width:100%;display:block;border-bottom:1px solid var(--rule);border-left:1px solid var(--rule);
overflow:visible}
.y{display:flex;flex-direction:column;justify-content:space-between;text-align:right;line-height:1;
white-space:nowrap}
.x{grid-column:2;display:flex;justify-content:space-between;padding-top:.25rem;height:1.5rem}
.x span{flex:0 1 auto;width:0;display:flex;justify-content:center;white-space:nowrap}
.x span:first-child{justify-content:flex-start}.x span:last-child{justify-content:flex-end}
@media(max-width:40rem){.x span:not(:first-child,:last-child){visibility:hidden}}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(18rem,100%),1fr));gap:0 2rem}
path.now,path.merge{fill:var(--fill);stroke:var(--now)}path.then,path.leave{fill:var(--fill2);stroke:var(--then)}
path,line{stroke-width:1.5;vector-effect:non-scaling-stroke}
rect.merge{fill:var(--now)}rect.leave,rect.column{fill:var(--then)}
line.fall{stroke:var(--soft)}line.mark{stroke:var(--then);stroke-width:7;stroke-linecap:round}
.scroll{overflow-x:auto;background:linear-gradient(90deg,var(--card) 30%,transparent) 0/2.5rem 100% local no-repeat,
linear-gradient(270deg,var(--card) 30%,transparent) 100%/2.5rem 100% local no-repeat,
linear-gradient(90deg,var(--rule),transparent) 0/.8rem 100% no-repeat,
linear-gradient(270deg,var(--rule),transparent) 100%/.8rem 100% no-repeat}
table{border-collapse:collapse;width:100%;font-size:.85rem;font-variant-numeric:tabular-nums}
th{font-weight:500;color:var(--soft);border-bottom:1px solid var(--rule);white-space:nowrap}
th,td{padding:.3rem .6rem .3rem 0;vertical-align:top}td{white-space:nowrap}
tbody tr+tr td{border-top:1px solid var(--rule)}
td:has(.why){white-space:normal;min-width:18rem;width:99%}
td .name{display:inline-block;width:max-content;max-width:min(20rem,36vw);white-space:normal;overflow-wrap:anywhere}
@media(max-width:40rem){td:has(.why){min-width:12rem}}
td:has(.bar){width:99%;min-width:5rem;vertical-align:middle}
.bars table td{border:0;padding-block:.1rem}
button,input{font:inherit;color:inherit;background:var(--page);border:1px solid var(--rule);border-radius:.4rem;
padding:.25rem .7rem}input{max-width:100%}button{cursor:pointer}
@media print{body{background:none}section{break-inside:auto;border:0;padding:0}}
"""


def whole_page(title: str, body: Markup, *, refresh_s: int | None = None) -> Markup:
    """A document; with ``refresh_s``, the browser reloads it after this time."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", http_equiv="refresh", content=str(refresh_s)) if refresh_s else None,
        tag("title", title),
        tag("style", Markup(_CSS)),
    )
    return joined([Markup("<!doctype html>"), tag("html", head, tag("body", body), lang="en")])
