/* Starts Dash: in a file of its own, so that no script has to stand in the page. */
"use strict";
window.renderer = new DashRenderer();
