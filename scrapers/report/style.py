"""The look of the page: light or dark as the reader's system is, one column on a phone."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #5b6470; --rule: #d9dde3;
  --bad: #b3261e; --good: #1a7f4b; --warn: #8a5a00;
  --c0: #2563c9; --c1: #d9730d; --c2: #138a63; --c3: #b83280; --c4: #7a52c7; --c5: #8a7a12; --c6: #7b8490; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --card: #1d2126; --ink: #e8eaed; --soft: #a2abb7; --rule: #363c45;
    --bad: #ff8a80; --good: #63d297; --warn: #f2b84b;
    --c0: #6aa5ff; --c1: #ff9f4a; --c2: #45cf9d; --c3: #ff7ec3; --c4: #b59bff; --c5: #d8c64a; --c6: #98a2ae; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .3rem 0; } .soft, caption { color: var(--soft); }
.how { display: inline-block; margin: .7rem 0 0; padding: .1rem .6rem; border-radius: 1rem; font-weight: 600;
  border: 1px solid; }
.how.good { color: var(--good); } .how.bad { color: var(--bad); } .how.warn { color: var(--warn); }
.error { color: var(--bad); margin: .6rem 0 0; padding-left: .8rem; border-left: 3px solid; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(46%, 14rem), 1fr)); gap: .7rem;
  margin: 1.4rem 0 0; }
dl div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
dd small { display: block; font-size: .8rem; color: var(--soft); min-height: 1.2em; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .8rem .9rem; background: var(--card); border-radius: .5rem; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--soft); } .value { text-anchor: end; } .time, .none { text-anchor: middle; }
.last { text-anchor: end; } .grid { stroke: var(--rule); stroke-width: 1; fill: none; }
.line { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.area { fill: currentColor; opacity: .16; } .fill { fill: currentColor; }
.c0 { color: var(--c0); } .c1 { color: var(--c1); } .c2 { color: var(--c2); } .c3 { color: var(--c3); }
.c4 { color: var(--c4); } .c5 { color: var(--c5); } .c6 { color: var(--c6); }
figure ul { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .4rem 0 0; padding: 0;
  font-size: .85rem; overflow-wrap: anywhere; }
figure i { display: inline-block; width: .7rem; height: .7rem; margin-right: .35rem; border-radius: .15rem;
  background: currentColor; }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-size: .85rem; padding-bottom: .3rem; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--rule); vertical-align: top;
  overflow-wrap: anywhere; }
th { font-weight: 500; } thead th { color: var(--soft); font-size: .85rem; }
.n { text-align: right; white-space: nowrap; padding-right: .2rem; } thead .n { padding-left: 1rem; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--card); padding: .05em .3em;
  border-radius: .2em; }
summary { cursor: pointer; margin-top: 2rem; font-weight: 600; }
"""
