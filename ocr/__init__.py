"""Reading memes: engines that find words in a picture, the steps that make a caption of them, and the stage."""
