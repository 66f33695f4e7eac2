"""What the page has beside the look that all pages share: plots and their colours."""

STYLE = """
:root { --tile: 14rem;
  --c0: #2563c9; --c1: #d9730d; --c2: #138a63; --c3: #b83280; --c4: #7a52c7; --c5: #8a7a12; --c6: #7b8490; }
@media (prefers-color-scheme: dark) {
  :root {
    --c0: #6aa5ff; --c1: #ff9f4a; --c2: #45cf9d; --c3: #ff7ec3; --c4: #b59bff; --c5: #d8c64a; --c6: #98a2ae; } }
.error { color: var(--bad); margin: .6rem 0 0; padding-left: .8rem; border-left: 3px solid; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .8rem .9rem; background: var(--card); border-radius: .5rem; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
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
.wide { overflow-x: auto; }
summary { cursor: pointer; margin-top: 2rem; font-weight: 600; }
"""
